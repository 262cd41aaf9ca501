"""The tier of every test file, by folder or file: what it needs to run, and how long that takes.

`pytest -m fast`, or `-m "long or process"`, runs those tiers alone. Chosen by processor seconds of single files,
measured on 2026-11-23: a file of more than 3 s is `long`, and so is one that imports torch or computes when it is
collected, except the conformance tables, the house rules, the units and the step, which come first. Published tables
follow the pages, which show them, so that one process predicts them once.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
TIERS = {
    "fast": "unit and conformance tests",
    "long": "searches, simulations and fuzzers that compute for many seconds",
    "page": "the documentation: every command and example in it",
    "process": "starts real processes",
}
PLACES: dict[str, tuple[str, ...]] = {
    "fast": (
        "campaigns", "cli", "cli_programs", "collectives", "diagnosis", "failures", "generation", "hardware", "layout",
        "methods",
        "parallel", "planner", "program", "rows", "real", "simulate", "stacks", "step", "store",
        "types", "validation", "verbs", "views", "words", "workload", "test_files.py", "test_house.py",
        "test_mutants.py", "test_ratchet.py", "test_tiers.py", "test_units.py",
    ),
    "long": (
        "lab", "evidence", "fuzz", "step/test_passes.py", "verbs/test_ends_of_words.py",
        "verbs/test_layout_not_given.py", "verbs/test_odd_texts.py", "verbs/test_verbs_agree.py",
        "campaigns/test_campaign_verb.py",
        "campaigns/test_scaling.py", "cli/test_cli_contract.py", "validation/cases",
        "diagnosis/test_judge.py", "diagnosis/test_path.py", "diagnosis/test_diagnose_verb.py",
        "cli/test_cli_tables.py", "cli/test_documented_defaults.py", "cli/test_help_examples.py",
        "cli/test_json_reference.py", "cli_programs/test_program_fuzz.py", "cli_programs/test_program_verbs.py",
        "collectives/test_cluster_rates.py", "collectives/test_forecast.py", "collectives/test_laws.py",
        "collectives/test_levels.py", "collectives/test_one_time_on_a_cluster.py", "planner/guide/test_guide.py",
        "planner/guide/test_guide_numbers.py", "methods/test_compression.py", "methods/test_local_and_staleness.py",
        "methods/test_loss_scaling.py", "methods/test_norms.py", "methods/test_optimizers.py",
        "methods/test_summation.py", "parallel/test_experts.py", "parallel/test_inside.py",
        "parallel/test_overlap.py", "parallel/test_pipeline_laws.py", "parallel/test_pipeline_published.py",
        "parallel/test_tensor.py", "planner/test_export.py",
        "planner/test_export_arguments.py", "planner/test_export_accelerate.py", "planner/test_export_questions.py",
        "planner/test_export_schedules.py", "planner/test_trainable.py",
        "planner/test_roofline.py", "planner/test_search.py", "planner/test_sensitivity.py",
        "planner/test_replans.py", "planner/test_export_megatron.py", "planner/test_upgrades.py",
        "hardware/test_documents.py", "layout/test_memory_oracle_llama.py", "layout/test_oracle_of_ranks.py",
        "failures/test_checkpoint_verb.py", "failures/test_intervals.py", "failures/test_pool.py",
        "failures/test_simulation.py", "views/test_house_of_pictures.py", "views/test_pictures.py",
        "views/test_tables_of_answers.py", "views/test_timeline_plot.py", "rows/test_rows.py",
        "store/test_damaged.py", "test_outputs.py", "test_walks.py", "simulate/test_engine.py", "simulate/test_law.py",
        "simulate/test_queues.py",
        "real/test_torch_exports.py", "real/test_torch_groups.py", "real/test_torch_pipelines.py",
        "step/test_expert_overlap.py", "step/test_offload.py", "step/test_rows.py", "step/test_step_messages.py",
        "step/test_step_program.py", "failures/stragglers/test_stragglers.py", "validation/test_fit.py",
        "validation/test_calibration.py", "planner/test_interval.py",
        "words/test_idle_words.py", "workload/test_workload_torch.py",
    ),
    "page": ("test_docs.py", "test_fine_tunes.py", "test_site.py", "validation/test_tables.py"),
        "process": ("capture", "engines", "evidence/test_guide_programs.py", "measure", "plugins",
                    "cli/test_cli_python.py",
                    "planner/test_pull_request.py", "cli/test_streams.py", "real/test_torch_ranks.py",
                "store/test_event_file.py", "store/test_store.py", "test_packages.py", "ui", "views/test_kernel.py"),
}  # fmt: skip
"""Folders and files below `tests/`; the longest that a file is in counts."""
_TIER_OF = {TESTS / place: tier for tier, places in PLACES.items() for place in places}


@cache
def tier_of(file: Path) -> str | None:
    """The tier of a test file, None where the table has no entry for it."""
    return next((_TIER_OF[path] for path in (file, *file.parents) if path in _TIER_OF), None)
