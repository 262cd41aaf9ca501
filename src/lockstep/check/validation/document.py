"""Writes `docs/validation.md` from the tables: `python tools/pages.py --write docs/validation.md`.

A test compares the page with what this returns, so the page changes in the commit that changes a prediction.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.units import format_size, format_time
from lockstep.check.validation import calibrated, ledger_page
from lockstep.check.validation.report import Error, Report, StackReport, TableReport
from lockstep.check.validation.typical_errors import typical_errors
from lockstep.check.validation.weak_scaling import series

HEAD = """# Predicted against published

Every row of every table is predicted from datasheet rates, kernel rates of the device and the switches of the software;
none has a constant of its own. An error is predicted / measured - 1: positive means that Lockstep says slower (or more
memory) than was measured. `lockstep validate` prints this and fails when a table's median absolute error exceeds its
tolerance.

`lockstep validate --plot errors.png` draws the steps:

![Predicted beside measured step times of 21 programs, and errors by program](pictures/errors.png)

"""
STEPS_HEAD = """
## Steps by software

**In sample {left_out} is the error of a training program that nothing was fitted to**: the median over the programs
below of the median error of each when its rows are *left out* of the fit. What the code knows of it was written with
these rows in sight all the same. A program left out keeps its switches, which are facts with a source (`lockstep
catalog stacks`); what elementwise kernels of its library take, and products of B200, then come from the others
(`python tools/fit/fit.py --each`). *Fitted* is the error with all rows in the fit; where both are equal, none of the
program's rows ever was.

**{coverage} of those steps lie inside their 90 % interval**, every program weighing the same. The interval around an
answer is as wide as errors of programs left out, larger where the host takes much of the step or the device is less
known, and larger still where links were never measured; here its constants know no row of the program either
(`python tools/fit/spread.py`). *Inside* is the share, of at most 32 rows of each table.

By device, in the mean over programs of their medians: {curves}
(`python tools/fit/support.py --curves`).

| software | rows | fitted | **left out** | 90th percentile | mean signed | inside |
|---|---|---|---|---|---|---|
"""

CHOICES_HEAD = """
## Choices

What it would have cost to take the layout that is predicted fastest, of all that a table measured for the same job on
the same devices: its measured time over the least measured time, minus 1; and the same of the robust choice.
*Questions* are jobs with at least three layouts. The last column leaves out rows that contradict another one: between
two micro-batches of one layout a device would compute at more than its peak (check/validation/contradictions.py). Of
the layouts that ran, {fits} fit in memory here (of at most 32 rows of each table). Of {ran_out.runs} runs that are
recorded to have run out of memory, {ran_out.accepted} would fit, and {ran_out.tight} barely: what runs
out of memory in more than one of ten cases is said to be tight, and no plan takes it where another is nearly as fast
(`Memory.tight`).

| table | questions | fastest: mean | largest | robust: mean | largest | fastest, consistent rows: mean |
|---|---|---|---|---|---|---|
"""
WEAK_HEAD = """
## Weak scaling

Seconds of a step on the fewest devices of a series over those on the most; its rows differ in data-parallel ranks and
in the batch, which grows with them. Predictions are off by {median} points in the median and {mean} in the mean. Beside
traffic, steps lose by devices of unequal speed: all wait for the slowest. These series tell the standard deviation, a
number for each cluster (`python tools/fit/weak_scaling.py`): 2.6 % of the H100 of clouds and of Oracle's
A100, 2 % of InternLM's A100. NVIDIA's own A100 show none that could be told from traffic, and A100 of a cluster that
nobody measured have about their mean, 1.6 %; `--rank-jitter` says another.

| table | model | devices | measured | predicted |
|---|---|---|---|---|
"""
TABLES_HEAD = """
## Tables

A constant efficiency, chosen as the table's own median, is what a spreadsheet can do at best: *MFU* assumes one model
FLOPs utilisation, *HFU* one hardware FLOPs utilisation and knows each row's recomputation. Rows of *vtrain_a100_single*
are no measurements but another simulator's answers; they count nowhere else on this page.

| table | rows | median error | left out | inside | mean error | mean signed | constant MFU | constant HFU | tolerance |
|---|---|---|---|---|---|---|---|---|---|
"""

NOTES = """
## How to read it

- **Errors.** Median and mean are of absolute errors; the constants' columns are median absolute errors too.
- **Fitted or not.** Four constants are fitted: two of B200, and what elementwise kernels of apex and of Transformer
  Engine take over their bytes; to at most 60 rows per table and device of narayanan (April rows and table 2),
  korthikanti, vtrain_a100_multi, nvidia_nemo, dgxc_nemo and vocab_parallelism, of which rows that the authors' own
  repetition makes 9 to 14 % faster are left out. H100, A100, H20 and RTX 4090 have what torch's products reach alone.
  Rates of attention kernels were fitted to benchmarks of those kernels alone; how much slower FlashAttention is in
  Triton is from the paper of its successor. The spread of devices' speeds was fitted to weak scaling (below).
  Everything else, and all memory, is not fitted.
- **Facts of the software explain most.** One rate of attention for H100, fitted to steps, had hidden that llm-foundry
  runs FlashAttention of 2022 in Triton: with each program's own kernel dgxc_nemo went from 11.3 to 3.8 % and
  dgxc_maxtext from 24.7 to 5.2 % ([decision 3](decisions/0003-device-efficiency.md)). NeMo's recipes keep gradients in
  bf16, its launcher's of 2024 those of Llama in fp32, 2 to 3 % of a step: dgxc_nemo went from 3.0 to 2.4 %. Models that
  only these configurations describe are 14 steps that nothing was fitted to (nvidia_nemo_launcher). InternEvo
  broadcasts whole tensors in turn, runs FlashAttention of 2022 and norms in fp32 twice: from 17.6 to 4.1 %.
- **What autograd adds up.** PyTorch adds the gradients of a residual stream's two ways and sums those of biases in
  kernels of their own, and launches one for every tensor whose gradients it accumulates; norms of torch, apex and
  torch.compile take a second kernel for the gradients of their weights: compiled backward passes of RMSNorm take twice
  as long as cuDNN's, 1.7 times here (tests/step/test_passes.py holds all of it to torch's own operations and to that
  table). FSDP2 copies what it gathers and scatters. A host that is ahead after the forward pass has less to do in the
  backward pass. With these, and norms of queries and keys, the 90th percentile over all rows went from 33 to 22 %
  left out. A layer launches 60 kernels then and not 35.
- **What the host costs** is fitted to nothing. A launch takes 20 us, as in traces; a step of 256 tokens on one H100
  took 22 us each. A step takes 10 ms besides: h100_steps are met within 1.6 %, with 5 or 20 ms within 3.6. A recomputed
  layer takes 1 ms, which is assumed: of published steps few wait for it, and BigScience's sweep would ask for 2.
- **Recomputation that stops.** XLA leaves out what nothing reads, and PyTorch's checkpointing without re-entry stops at
  the last tensor that a backward pass needs (since 2.1), so that a layer's down product is not run again
  (`recompute_stops`). llm-foundry's own tables show it: from July 2023 to the rows of 2024 the same layouts of A100
  became 5.0 % faster in the median where layers are recomputed, and 0.5 % elsewhere (13 and 17 pairs). With it the
  curve of H100 came down to the best product that was measured, 0.81 of the peak instead of 0.88; MaxText went from
  10.3 to 5.3 % left out, TPUs from 8.9 and 9.7 to 6.5 and 2.2 %, without a constant of theirs being touched.
- **What software does not fuse.** Megatron's loss, torch's loss, gates, and the norms and rotary embedding that
  transformers writes out pass over memory many times more than one kernel would; a test counts the bytes of torch's own
  operations (tests/step/test_passes.py). GPT-NeoX pads heads of 80 to 128 in FlashAttention-1 and, through DeepSpeed,
  reduces gradients beside nothing: from 17.2 to 10.7 %. FlashAttention-2 is no faster on B200 than on H100, by rates of
  the kernel alone: prime_rl from 37 to 16 %.
- **FlashAttention in Triton** runs 1.3 to 1.5 times slower forward and twice backward, as the paper of FlashAttention-2
  says: llm-foundry's steps of 32,768 tokens and more, 12 to 34 % too slow before, are within 10 %.
- **Softmax without a kernel.** Megatron's runs where sequences times heads of a rank are a multiple of four.
- **Operations alone.** PyTorch's sums and activations take 1.03 times their bytes on H100, its losses 1.11, norms and
  rotary embedding as transformers writes them 1.2 to 1.9 times, tensors that are turned over 2.0, copies to fp32 1.5,
  sums of half precision in fp32 1.3, products with an adapter's rank 1.36, updates of many tensors 1.13, and what
  Inductor writes 1.13 inside of compiled layers, products in four pieces 1.07; kernels are 1.5 us apart. No step
  decides any of them. What NeMo's layers take beside is one factor for all that runs Transformer Engine, 2.8; why it is
  not nearer to one is not known. On H100 a factor of 1.6 would do beside attention that takes 1.2 times as long.
- **What turns tensors over.** GPT-NeoX and nanotron keep sequences before samples and copy queries, keys and values for
  a kernel that wants them after; a test counts the bytes of torch's own operations (tests/step/test_copies.py). Pythia
  went from 9.2 to 2.6 %, the last 4 points as such copies take twice their bytes alone on H100. torchtitan rotates
  complex numbers, for which Inductor has no code, and what recomputation per operation does not keep, rotary embedding,
  repeated heads and gathers, is run again. Sequence parallelism gathers a second time for weight gradients (arXiv
  2205.05198, section 4.2.2): on PCIe from 6.2 to 3.0 %. What surrounds an update is 50 bytes a parameter, not 34, which
  is in the range that Megatron-LM's own timers give on V100 (43 to 82).
- **Compiled in name.** prime-rl asks torch to compile layers that are recomputed, and transformers' attention breaks
  the graph: they run eagerly. As such dense models are 7 % too fast to 7 % too slow, but 0.6B with 8,192 tokens, 12 %
  too fast; as compiled ones they were up to 42. Qwen3 30B, whose layers are prime-rl's own, breaks it in FlashAttention
  3: 25 % too fast, where it was 52 as compiled with fused experts.
- **Experts in PyTorch's operations.** What brings rows to small experts takes 2.5 times as long as their products, 0.7
  compiled, and a loop over 128 waits for the host. Layers on one H100 (expert_code.csv) are met within 4 to 10 %.
- **Above 10 % by software, and why.** *torchtitan*: see below. Without the rows of *nemo-25* no B200 was ever seen:
  dense models are then 10 % off there and 4 % on H100.
- **What surrounds an adapter.** PEFT's casts, torch.autocast's, dropout with its mask, a quantised base whose matrices
  read fp32 and gradients of what several products read are each priced by the kernels they run; a test counts the
  bytes of torch's own operations (tests/step/test_adapter_passes.py). fms_adapters went from 9.1 to 4.0 %, its memory
  from 2.8 to 1.2, fms_acceleration from 6.5 to 4.6; to 2.6 and 4.2 with what is measured alone of kernels that wait
  for their instructions. Left are small models with two sequences on each of two devices, up to 29 % too fast.
- **Above 6 % by table, and why.** *dgxc_tuning* (7.5): Llama 3 8B is 7 to 8 % too slow, with adapters 16 to 23, as they
  ask for 0.7 in the median where Transformer Engine's memory-bound kernels have a factor of 2.8; why is not known.
  *llm_foundry_mpt* (6.1): its H100 of 2023, 5 to 17 % too fast at all sizes, which nothing measured on H100 since
  explains. *prime_rl* (6.7) is seven rows. *bigscience_v100_logs* (9.7) and *bert* (6.8): V100's curve is assumed, and
  so is TF32's. *fine_tuning_open* (7.9): rows of one model differ by 22 points from one launcher to another.
  *maxtext_tpu* (6.6): TPU v5e comes out up to 25 % too slow at 16B to 64B, and no curve was fitted to it.
  *vtrain_a100_multi* (6.2), *torchtitan* (6.6): see below. *zero_bubble* (7.0): up to 13 % too fast on one node, up to
  12 too slow with 1F1B on several. *dgxc_nemo_experts* (7.0) and *nvidia_nemo_experts* (9.7): see experts.
- **vTrain's rows on one node** are sums of a shape's few parts to the nanosecond that they are printed in, and sends
  follow the formula of the authors' simulator: a program put them together from a layer's profile
  (tests/validation/test_vtrain.py). Launches, hosts and apex's factor had been fitted to them. Without them host times
  came to rest where they start, vtrain_a100_multi went from 7.1 to 6.2 % in sample and megatron_2020 from 8.7 to 7.4
  left out; worse are zero_bubble, 6.4 to 7.0, and BigScience's V100.
- **nanotron.** Kernels of its layers, measured on one H100 without collectives, take what they are priced at within 4
  % (h100_layers.csv). The network of its nodes is what its own jobs measured, and was taken after its steps had come
  out fast. Tensor parallelism at the largest micro-batch is then within 9 % on 2 to 32 GPUs, models of 9B and 3.6B in
  two stages within 5. 1.3B in two stages is 15 to 21 % too slow: the kernels of its first stage alone take longer on
  our H100 than the whole published step, so one of both does not tell what ran. At ZeRO-1 on 512 GPUs the host copies
  17 to 21 thousand slices by themselves; steps of 0.4 and 0.5 s are 24 % too fast and 19 % too slow. 80B on 32 GPUs
  took three times as long as predicted. Of 31 rows these two, 80B on 32 and 64 and three of 1.3B miss their intervals.
- **torchtitan and torchao.** Their H100 have 500 W and HBM2e: the clock that their power allows is taken. With heads
  copied (repeat_kv) and parts of attention added in fp32 405B with context parallelism is 5 to 15 % too fast; 8B on
  four and eight ranks is 28 and 31 where on two it is 4, and why is not known. With DTensor's copies of sequences,
  asynchronous reductions that hide nothing backward, gathers in fp8 and casts by rows, scales by row are 15 and 18 %
  too fast, were 32 and 38, others on eight tensor-parallel ranks within 12. 405B with interleaved stages is 20 % too
  fast: PyTorch of 2024 ran them slot by slot, neighbours waiting for one another, which by the count of slots makes
  33 s of 25.7, measured 32; not priced. torchao's B200, of an unknown power, are left out.
- **Facts that were chosen after errors had been seen.** torchtitan's matrix rate (by the power of its devices), that
  nothing overlaps Llama 3's tensor-parallel traffic (with Megatron's overlap its rows come out 3 points faster), the
  links of simumax_a100_pcie, that GPT-NeoX's elementwise kernels are PyTorch's own, what transformers, LitGPT and
  bitsandbytes keep for the backward pass (read in their code after memory had come out low), InternEvo's attention
  kernel and what its layers and metrics do (read after its steps had come out fast), what a launch takes,
  how much slower hosts of A100 and V100 are, and Python's launches than autograd's, that copies without a graph launch
  as autograd does, what GPT-NeoX, nanotron, DTensor and prime-rl copy, gather and compile, BigScience's copy of the
  logits, what Grok-1's and Nemotron-4's configure.sh override, FlashAttention's release where it turns cuDNN's off,
  what gpt-oss's biases cost and which scaling fp8 had in container 25.09 (looked for after steps had come out fast),
  that kernels which wait for their instructions do so less on devices with graphics memory, the network of nanotron's
  jobs and the latency of p5's EFA, what NeMo's launcher configures and how many chunks a stage had before its tables
  printed them, what a gate over halves of one tensor takes, that fp16 gradients are summed in fp16, that BigScience's
  dropout is on, how often PEFT casts and drops, from how full a device on a layout is tight, the margin of
  megatron_ci's memory, and each table's tolerance.
- **Where a constant does as well.** bigscience_v100 and bert are one program on one or two machines, and
  llama3_405b and tpu_recipes lie at nearly one utilisation: a constant that saw the answers errs no more there than
  we do.
- **The same program a year before.** llm_foundry_mpt_2023 has 84 rows of July 2023 that nothing was fitted to: 4.1 % in
  the median. Its worst are 30B on eight GPUs, 10 to 19 % too fast, and 7B with 65,536 tokens, 14 %.
- **BERT.** Samples of 128 tokens are met within 3 % in fp16 and 9 % in TF32 on 1 to 256 A100, nothing of which was
  fitted. On V100, whose curve is assumed, fp16 comes out 7 to 9 % too fast and fp32 16 to 20 % too slow.
- **V100.** Nothing of V100 was fitted. With pipeline stages a 1.3B model on two nodes is met within 8 % in time,
  without within 11. Tensor parallelism of 2 took two thirds longer than predicted; why is not known. Its loss is
  computed on a copy of the logits (cross_entropy "copied"); of four runs out of memory one is refused, one is tight,
  and two would fill 85 and 94 %. On 16 to 256 GPUs passes are within 5 % in the median, and whole steps up to 25 % too
  fast: sends and what waits for them took 11 to 18 s of 125, on a network where the team saw the same layout take 125
  and 225 s.
- **One H100, measured for this page.** Kernels alone and 37 training steps of Hugging Face models were measured on one
  H100 on 26 and 27 November 2026 (benchmarks/gpu_kernels.py, one_gpu.py). The curve of H100 is that of kernels, not of
  steps: products alone at 73 % of the peak and a third of their operands' traffic besides, streams at 90 % of the
  bandwidth. What autocast does was written down from a profile of the first run; 11 further cases were predicted
  before they were measured: 7 % off in the median, 18 % at most, their memory 2 % in the median. Memory of twelve
  more, 0.6 % off in the median and up to 12, showed that norms keep copies in fp32 under autocast; with these all 37
  are within 4 %, half within 0.4. Nothing is fitted to these rows. Alone, products are held back by power: inside of
  layers they take 0.82 to 0.98 of that time and FlashAttention-2 1.1 to 1.3 times as long as alone, which is priced
  since ([decision 3](decisions/0003-device-efficiency.md)). In the profile of one of these steps products take 6 %
  longer than priced then, kernels that move memory and what lies between kernels 6 %, updates 2 % less; steps went
  from 3.3 to 1.6 % off in the median. Steps compiled by torch come out 4 and 9 % too slow. Attention written out in
  transformers was 34 % too fast and GPT-2, whose activation is written out in fp32, 35 %; with both as its code has
  them, and kernels as in that profile, they are 1 % and 2 to 7 % too fast, their memory 1 % low.
- **Choices.** One vTrain question of four goes wrong: 39.1B with tp 2, pp 8, dp 32 and micro-batches of two sequences
  took 21.9 s where 14.3 are predicted, and 19.1 s with three. These two contradict one another, as no other rows do.
- **What ran and does not fit.** All three rows of llama3_405b by 10 to 19 %, half of the TPUs' rows, and seven of 46 of
  nvidia_nemo, four of them by less than 1 %: what Meta's trainer gives up between passes is not printed. MaxText's
  Llama 3.1 70B fits since its script was read: it keeps queries, keys and values alone (NVIDIA/dgxc-benchmarking,
  maxtext/configure.sh, `save_qkv_proj`), and MaxText's policies do not keep the output of attention.
- **Memory by moment.** Memory is fullest at the loss, in the backward pass of a layer, at its end or during the update,
  and software differs in all four: what a loss makes of logits, gradients that PyTorch frees, the tensor that its AdamW
  holds besides. On one device torch's own memory tracker agrees within 3 % on every shape and format that is asked
  (tests/layout/test_memory_oracle.py), and fms_acceleration's peaks within 0.1 % in the median: half of them are those
  of the update. Of its nine runs that ran out of memory seven are refused, the others would fill 95 and 99 %.
- **Reserved and allocated.** torchtitan, prime_rl, InternEvo and nanotron say what torch's allocator had reserved, or
  do not say which: 10 to 25 % more than the tensors that live at once, most where a loss in fp32 frees blocks that
  nothing fits into. Ranks of torchtitan's jobs hold and move what torch counts in a process group that moves nothing
  (tests/layout/test_oracle_of_ranks.py): from 14.6 to 9.7 %. Megatron's own tests say every byte of tensors: states are
  0.6 % off in the median, peaks 0.4, with what its libraries keep counted by cause (check/validation/megatron_kept.py).
  Two things are not from its code: that a second micro-batch is there was read off the values, and 16 MiB for small
  tensors is a margin, chosen so that the mean error is not below 0; without it both are 0.3 % low in the mean.
- **Fine-tuning on small machines.** Steps of torchtune are met within 9 % on A100 and RTX 4090, those of FSDP-QLoRA on
  two RTX 4090, Llama 2 70B from host memory among them, within 10 %; nothing was fitted. They came out 2 to 31 % too
  slow until the device had its own curve: its products reach 0.96 of the peak, where A100's reach 0.79, which waits
  for power. Kernels that wait for their instructions on H100 keep up with its memory, or these would be 12 to 18 % too
  slow. The memory of LitGPT's adapters beside bf16 weights is met within 2 % in the median and torchtune's techniques
  within 9: its loss takes tokens in eight compiled pieces, whose gradients of the head add up. 4-bit rows of LitGPT,
  which came out 9 to 20 % low, are met within 4 % since its code was read with bitsandbytes': inputs that the batch
  before left are kept, and the head is quantised too (check/validation/memory_finetune.py). That batches as long follow
  one another is inferred. torchtune's QLoRA of 3B, 19 % high before, comes out 8 % high, of 405B 25 %; why is not
  known. Adapters of PEFT read casts of their own, so that nothing needs what frozen matrices read: 8 to 12 % too much
  memory without recomputation is within 1 %. FSDP-QLoRA prints reserved memory, of which 2 GiB are left from loading,
  as its authors note. What ran out of memory is refused, all six.
- **Notes at the head of scripts.** fine_tuning_open is rounded by hand, and its memory is what torch had reserved: 15 %
  more than here in the median, 30 where adapters are on experts. H20 has a sixth of H100's rate, and its kernels reach
  more of it: 16,384 tokens came out 38 to 56 % too slow with H100's shares and 7 to 10 % with its own.
- **Vocabulary layers.** On 16 and 32 devices spread vocabulary layers are predicted within 8 %; all rows of the
  smallest models come out too fast. The authors' own repetition on one node (sail-sg/VocabularyParallelism, artifact)
  is 12 to 15 % faster than the printed rows of 4B with 4,096 tokens. With Megatron's loss in place errors no longer
  fall with the vocabulary, and whole vocabulary layers are 5 to 10 % too slow. The scripts train in fp16 and do not ask
  for gradients in fp32: with two bytes each memory went from 7.4 to 2.7 %. Of six rows that ran out of memory two do
  not fit here, and four fill 95 to 96 % of it.
- **Zero-bubble schedules.** On an assumed network (RoCE, four ports of 100 Gbit/s) 1F1B over several nodes comes out up
  to 19 % too slow. Post-validation is not priced. Memory is within 2 % in the median.
- **Two years of Megatron-LM.** The same 1T layout took 102.6 s in 2021 and 94.4 s in 2022. Between the two papers it
  learned to reduce input gradients beside weight-gradient products and to accumulate inside these: two switches of the
  stacks `megatron-2021` and `megatron-2022`, on one device.
- **DeepSpeed's pipeline.** bigscience_a100_sweep is of another engine than the fit: gradients are copied before they
  are added, sends take turns, and every kernel launch blocked, as the team's scripts and DeepSpeed's code say
  (`converted_gradients`, `paired_sends`, `launch_blocking`). The team's README adds that Megatron's dropout is on, and
  that embedding and head take the place of a layer each: 4.7 % in the median, 7.2 without. Rows with tp = 8 stay 2 to
  25 % too fast; why is not known.
- **TPUs.** No row of one was fitted. Rows of v5e with everything recomputed run at 89 % of the peak rate, counting what
  is recomputed; the assumed curve reaches 75 %, so 32B comes out 32 % too slow. Several slices lose up to 15 % against
  one where here nothing is lost: their exchange hides behind the backward pass, and slices do not differ. Rows of v6e
  put a part of what is kept in host memory; all of it is priced. Llama 2 70B's batch contradicts its rate. Of 34 rows
  of v5e and v6e 17 would fill 108 to 159 % of the memory: for what XLA and the framework hold beside tensors the same
  is assumed as on GPUs, and v6e's losses over 128,256 logits are not cut in pieces here.
- **Links of a PCIe server.** simumax_a100_pcie is priced on two halves of four cards, at rates of SimuMax's own file;
  that description was made after the flat server of the catalog had come out 34 % too fast in the median.
- **Experts alone.** H800's NVLink has the rate of DeepEP's two rows in one node; nothing else was fitted to
  deepep_all_to_all or moe_layer_perf. DeepEP's exchange over two nodes, where NVLink binds, is met within 8 %.
  Casts to fp8 are priced; what blockwise scales cost more is not: by rates of kernels alone weight gradients take 2.4
  times as long on H100 as other products of experts (pytorch/ao, blockwise_fp8_training). Megatron's layers are met
  within 12 %. The four rows of one B200 are 36 to 54 % too fast: torch's grouped products take 1.3 to 1.6 times as long
  as dense ones by the same source, and the rest is not known.
- **Whole steps with experts.** Nothing was fitted to dgxc_nemo_experts or nvidia_nemo_experts either. Grok-1 in bf16
  comes out 3 to 9 % too fast, in fp8 5 to 13 %, most where a rank holds several experts, which its recipe runs one
  after another on slices; of May 2025, with other software, 9 % too slow in bf16. On nvidia_nemo_experts the same
  model on the same devices became up to 2.8 times as fast within half a year (Qwen3 30B on eight B200: 27.1 s in
  container 26.02 with micro-batch 1, 9.7 s in 26.04.01 with 4): with one sequence at a time the host launches every
  expert's products one by one, which is priced (the way `looped`, `--cuda-graphs`). GPT OSS, whose experts' biases
  Megatron Core adds one by one in fp32, is met within 18 % on H100 and with expert parallelism of 64 in 26.02 and
  before. Not explained: Qwen3 30B on 16 H100 in two pipeline stages takes up to twice as long as predicted, per token
  whatever the micro-batch, and the 18 to 38 % that it lacks on one stage of 16 H100 and in 25.09; GPT OSS on B200 with
  eight ranks of experts, where 1.2 and 1.7 s are missing, with five micro-batches and with two; and two of its rows
  with one configuration in 26.06 and 26.06.01, which took 2.8 and 4.5 s.
- **Kernels alone.** The curves of H100 and A100 are what kernels reach, B200's products were fitted to whole steps. On
  TPU v6e products come out 35 % too slow. Products for weight gradients of groups in fp8 ran at a third of the rate of
  the others, which is not modelled.
- **Collectives alone.** nccl_collectives and collectives_micro are of at least 1 MB; rows that a link of the catalog
  was fitted to are left out. Where one NVLink switch reduces (52 rows), the median is 3 %, and the rack of 72 GB200
  comes out 23 % too fast. Several such switches are 20 % off and more: NCCL runs its phases side by side, which is not
  priced. BigScience's 32 A100 took nine times as long as their Omni-Path would need, as the team noted then.
- **Read and not asked.** NVIDIA's scaling tables of NeMo Launcher on A100 (42 rows) do not print the batch that ran,
  and where they do it does not go together with the layouts of their configuration: 9 sequences on each of 160 GPUs in
  micro-batches of 4, 27 in micro-batches of 24; T5 and mT5 are not models here, and BERT's rows print a rate of FLOPs
  without saying how they are counted. torchgpipe's step rates are of P40, AmoebaNet and U-Net; its speed-ups are held
  to GPipe's formula (tests/parallel). Megatron-LM's tests print no number of GPUs where a step is not bound by the
  host. DeepSeek-V3's training trace has no licence: a test reads it where it lies
  (tests/validation/test_deepseek_profile.py).
- **The worst rows.** Narayanan's ZeRO-3 rows ran DeepSpeed of 2021 ([errata](errata.md)). Seven of vTrain's 29 rows on
  several nodes take 0.09 to 0.24 s longer for every turn of the pipeline than predicted, whatever the micro-batch: all
  on two tensor-parallel ranks at 39.1B, and one each of 3.6B, 18.4B and 39.1B on more. At 39.1B a layer and sequence
  takes 2.4 to 3.2 times as long on two ranks as on four, where products can at most double, and 1.3 times as long in
  16 stages on four ranks as in eight. Neither a full allocator explains it nor gradients reduced after every
  micro-batch; the other 22 rows are off by 5.8 % in the mean. llm_foundry's are 8-GPU runs of 13B to 30B models and 40
  GB GPUs with little room for activations; what slowed them is not known.
"""


def _weak_scaling() -> str:
    """Weak-scaling series: efficiency from the fewest to the most devices."""
    rows, errors = [], []
    for one in series():
        few, most = one.devices
        measured, predicted = one.measured_frac, one.predicted_frac()
        errors.append(predicted - measured)
        both = f"{100 * measured:.1f} % | {100 * predicted:.1f} %"
        rows.append(f"| {one.table} | {one.model} {one.dtype} | {few:,} to {most:,} | {both} |")
    median, mean = np.median(np.abs(errors)), np.mean(errors)
    return WEAK_HEAD.format(median=f"{100 * median:.1f}", mean=f"{100 * mean:+.1f}") + "\n".join(rows) + "\n"


def page(report: Report) -> str:
    """The whole page as Markdown."""
    software = "\n".join(_by_stack(one) for one in report.stacks)
    rows = "\n".join(_summary(table) for table in report.tables)
    sections = "\n".join(_section(table) for table in report.tables)
    by_curve = ", ".join(f"{_percent(error)} on {name.upper()}" for name, error in typical_errors().items())
    shares = _percent(report.left_out_median_frac), _whole(report.coverage_frac)
    steps = STEPS_HEAD.format(left_out=shares[0], coverage=shares[1], curves=by_curve)
    choices = CHOICES_HEAD.format(fits=_whole(report.fits_frac), ran_out=report.ran_out) + "".join(
        map(_choice, report.tables)
    )
    measured = choices + _weak_scaling() + calibrated.section() + TABLES_HEAD + rows
    head = HEAD + ledger_page.section(*shares) + steps
    return head + "\n".join((software, measured, NOTES, sections))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _choice(found: TableReport) -> str:
    one = found.regret
    if one is None:
        return ""
    without = found.consistent_regret
    fracs = (
        one.mean_frac,
        one.max_frac,
        one.robust_mean_frac,
        one.robust_max_frac,
        without.mean_frac if without else None,
    )
    return "| " + " | ".join([found.table.name, str(one.questions), *map(_percent, fracs)]) + " |\n"


def _whole(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _by_stack(found: StackReport) -> str:
    answer = found.to_dict()
    cells = [
        found.stack,
        str(answer["rows"]),
        _percent(answer["median_abs_frac"]),
        f"**{_percent(answer['left_out_median_abs_frac'])}**",
        _percent(answer["left_out_p90_abs_frac"]),
        f"{100 * answer['left_out_mean_signed_frac']:+.1f} %",
        _whole(answer["coverage_frac"]),
    ]
    return "| " + " | ".join(cells) + " |"


def _summary(found: TableReport) -> str:
    answer = found.to_dict()
    cells = [
        f"[{found.table.name}](#{found.table.name})",
        str(answer["rows"]),
        f"**{_percent(answer['median_abs_frac'])}**",
        _percent(answer["left_out_median_abs_frac"]),
        _whole(answer["coverage_frac"]),
        _percent(answer["mean_abs_frac"]),
        f"{100 * answer['mean_signed_frac']:+.1f} %",
        _percent(found.constant_mfu_frac),
        _percent(found.constant_hfu_frac),
        _percent(answer["tolerance_frac"]),
    ]
    return "| " + " | ".join(cells) + " |"


def _section(found: TableReport) -> str:
    lines = [f"## {found.table.name}", "", found.table.source + ".", "", "Worst rows:", ""]
    lines += ["| row | measured | predicted | error |", "|---|---|---|---|"]
    lines += [*(_row(error) for error in found.errors[:5]), ""]
    return "\n".join(lines)


def _row(error: Error) -> str:
    show = format_size if error.quantity.endswith("_B") else format_time
    cells = [error.row, show(error.measured), show(error.predicted), f"{100 * error.error_frac:+.0f} %"]
    return "| " + " | ".join(cells) + " |"
