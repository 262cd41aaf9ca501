#!/bin/bash
# A Lockstep command on the nodes of a SLURM job:
#
#     sbatch examples/slurm.sh plan llama3-8b,llama3-70b --cluster dgx-h100:4,dgx-h100:8 --batch 512 --store plans.sweep
#
# The first node runs the scheduler and the command, every node a worker process per core. A job whose time is over is
# submitted again as it was: answers that are in the file of --store are not computed again.
#SBATCH --job-name=lockstep
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=02:00:00
set -euo pipefail

scheduler_file="$PWD/scheduler-$SLURM_JOB_ID.json"
# One thread a process: workers share the cores, and sums of other lengths would differ in their last bits.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

finish() {
    kill $(jobs -p) 2>/dev/null || true
    wait
    rm -f "$scheduler_file"
}
trap finish EXIT

dask scheduler --scheduler-file "$scheduler_file" --port 0 --no-dashboard --dashboard-address 127.0.0.1:0 &
srun --overlap dask worker --scheduler-file "$scheduler_file" --nworkers "$SLURM_CPUS_PER_TASK" --nthreads 1 \
    --no-dashboard --death-timeout 120 --local-directory "${TMPDIR:-/tmp}" &

until [ -s "$scheduler_file" ]; do sleep 0.2; done
lockstep "$@" --engine "dask:scheduler-file:$scheduler_file"
