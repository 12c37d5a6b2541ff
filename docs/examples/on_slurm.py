"""Runs a command of `perdure` on workers that Slurm starts, and ends them with it.

    python on_slurm.py --jobs 4 --cores 16 --memory 64GB -- sweep --out /shared/kv -- ./kv 3000

Always true here: a job is one Dask worker with a thread for each core, and each point, cut or seed
is a process of its own; the command's exit status is this program's. What is not given here (queue,
account, walltime) comes from Dask's configuration, `~/.config/dask/jobqueue.yaml`.
"""

import argparse
import subprocess
import sys

from dask_jobqueue import SLURMCluster


def main() -> int:
    """Starts the workers, then the command."""
    parser = argparse.ArgumentParser(description="Run a command of perdure on Slurm.")
    parser.add_argument("--jobs", type=int, default=1, help="how many jobs")
    parser.add_argument("--cores", type=int, default=1, help="of each job")
    parser.add_argument("--memory", default="4GB", help="of each job")
    parser.add_argument("--walltime", help="of each job, as HH:MM:SS")
    parser.add_argument("--queue", help="or partition")
    parser.add_argument("--account", help="who pays")
    parser.add_argument("--interface", help="network that the workers reach, as in ib0")
    parser.add_argument("--prologue", action="append", help="a line before the worker in each job")
    parser.add_argument("command", nargs="+", metavar="-- COMMAND", help="of perdure, for clusters")
    asked = vars(parser.parse_args())
    command, jobs = asked.pop("command"), asked.pop("jobs")
    asked["job_script_prologue"] = asked.pop("prologue")
    given = {key: value for key, value in asked.items() if value is not None}
    with SLURMCluster(processes=1, **given) as cluster, cluster.get_client() as client:
        cluster.scale(jobs=jobs)
        print("waiting until Slurm has started a worker", file=sys.stderr)
        client.wait_for_workers(1)
        words = [command[0], "--scheduler", cluster.scheduler_address, *command[1:]]
        return subprocess.run([sys.executable, "-m", "perdure.cli", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
