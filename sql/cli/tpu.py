"""The verbs around TPU VMs: create one, run a plan on it, fetch its traces, delete it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.cli.options import LimitsOption

if TYPE_CHECKING:
    from xlahouse.capture.tpu.gcloud import Gcloud

tpu_app = typer.Typer(
    help="Create TPU VMs with gcloud, run plans on them, fetch the traces.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the TPU VM.")]
Zone = Annotated[
    str,
    typer.Option("--zone", help="Zone, such as us-east1-d.", envvar="XLAHOUSE_TPU_ZONE"),
]
Project = Annotated[
    str | None, typer.Option("--project", help="Google Cloud project; default: gcloud's own.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the commands only.")]
Traces = Annotated[Path, typer.Option("--traces", help="Folder for the traces, on this machine.")]


@tpu_app.command()
def setup(
    zone: Zone,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: Project = None,
    dry_run: DryRun = False,
) -> None:
    """Prepare a cloud project once: service, identity, network.

    Each command is shown before it runs. VMs are then created with the network
    tpu-net and its subnetwork tpu-subnet.

    \b
    Examples:
      xlahouse tpu setup --zone us-east1-d --dry-run
      xlahouse tpu setup --zone us-east1-d --project my-project
    """
    from xlahouse.capture.tpu.setup import set_up

    if not (yes or dry_run):
        set_up(_gcloud(zone, project, True), _say)
        typer.confirm("Run these commands?", abort=True, err=True)
    set_up(_gcloud(zone, project, dry_run), _say)


@tpu_app.command()
def create(
    name: Name,
    type_: Annotated[
        str, typer.Option("--type", help="Accelerator type: v6e-8, v5litepod-16, v4-32.")
    ],
    zone: Zone,
    spot: Annotated[
        bool, typer.Option("--spot/--on-demand", help="Spot chips may be preempted.")
    ] = True,
    quota: Annotated[
        Path | None,
        typer.Option(
            "--quota",
            help="File of the quota; default: the shipped one.",
            envvar="XLAHOUSE_TPU_QUOTA",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Request more than the quota.")] = False,
    runtime: Annotated[
        str | None, typer.Option("--runtime", help="Runtime version; default: the generation's.")
    ] = None,
    network: Annotated[str | None, typer.Option("--network", help="VPC network.")] = None,
    subnetwork: Annotated[str | None, typer.Option("--subnetwork", help="Subnetwork.")] = None,
    service_account: Annotated[
        str | None, typer.Option("--service-account", help="Service account of the VM.")
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", min=0.1, help="Planned hours; a longer plan is refused.")
    ] = 1.0,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="PLAN.yaml", help="Plan that must end within the hours."),
    ] = None,
    experiment: Annotated[
        list[str] | None,
        typer.Option("--experiment", help="Only experiments of this name; * matches any text."),
    ] = None,
    valid_for: Annotated[
        str,
        typer.Option("--valid-for", help="How long the request waits for chips, such as 6h."),
    ] = "6h",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Return when the VM is ready, or at once.")
    ] = True,
    project: Project = None,
    dry_run: DryRun = False,
    limits: LimitsOption = None,
) -> None:
    """Request a TPU VM as a queued resource, within the quota.

    \b
    Examples:
      xlahouse tpu create tp4 --type v6e-4 --zone us-east1-d
      xlahouse tpu create core --type v6e-8 --zone us-east1-d \\
        --plan core.yaml --hours 5
      xlahouse tpu create big --type v4-32 --zone us-central2-b \\
        --on-demand --hours 3 --dry-run
    """
    from xlahouse.capture.slices import parse_slice
    from xlahouse.capture.tpu import vm
    from xlahouse.capture.tpu.budget import check_hours
    from xlahouse.capture.tpu.quota import SHIPPED, read_quota

    wanted = vm.WantedVm(
        name,
        parse_slice(type_),
        spot,
        runtime,
        network,
        subnetwork,
        service_account,
        valid_for,
    )
    grants = None if force else read_quota(quota or SHIPPED)
    if plan is not None:
        _say(check_hours(plan, tuple(experiment or ()), wanted.slice, hours))
    gcloud = _gcloud(zone, project, dry_run)
    vm.create(gcloud, wanted, grants, wait, hours, _say, vm.wait_a_while)
    if not dry_run:
        _say(f"it costs until `xlahouse tpu delete {name} --zone {zone}`")


@tpu_app.command()
def run(
    name: Name,
    plan: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="Plan of experiments.")],
    zone: Zone,
    experiment: Annotated[
        list[str] | None,
        typer.Option("--experiment", help="Only this experiment; may be repeated."),
    ] = None,
    traces: Traces = Path("traces"),
    install: Annotated[
        str | None,
        typer.Option("--install", help="Package to install there; default: this checkout."),
    ] = None,
    recreate: Annotated[
        int,
        typer.Option("--recreate", min=0, help="Times to create the VM again after a preemption."),
    ] = 0,
    project: Project = None,
    dry_run: DryRun = False,
    limits: LimitsOption = None,
) -> None:
    """Capture a plan on the VM, and fetch each experiment's traces.

    Experiments that have traces are skipped: after an interruption, run the command again.

    \b
    Examples:
      xlahouse tpu run tp4 plan.yaml --zone us-east1-d
      xlahouse tpu run tp4 plan.yaml --zone us-east1-d --recreate 5
    """
    from xlahouse.capture.scratch import scratch_folder
    from xlahouse.capture.tpu import run as tpu_run
    from xlahouse.capture.tpu import vm
    from xlahouse.capture.tpu.package import build_wheel

    with tempfile.TemporaryDirectory(dir=scratch_folder()) as drafts:
        source = install or ("xlahouse.whl" if dry_run else str(build_wheel(Path(drafts))))
        errand = tpu_run.Errand(name, plan, tuple(experiment or ()), traces, source, recreate)
        folders = tpu_run.run(_gcloud(zone, project, dry_run), errand, _say, vm.wait_a_while)
    for folder in folders:
        print(folder)


@tpu_app.command()
def fetch(
    name: Name,
    zone: Zone,
    traces: Traces = Path("traces"),
    project: Project = None,
    dry_run: DryRun = False,
) -> None:
    """Fetch all finished traces, from every host.

    \b
    Examples:
      xlahouse tpu fetch tp4 --zone us-east1-d --traces traces
    """
    from xlahouse.capture.tpu import run as tpu_run

    for manifest in tpu_run.fetch(_gcloud(zone, project, dry_run), name, traces):
        print(manifest)


@tpu_app.command()
def delete(
    name: Name,
    zone: Zone,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: Project = None,
    dry_run: DryRun = False,
) -> None:
    """Delete the TPU VM and its disks; it then costs nothing.

    \b
    Examples:
      xlahouse tpu delete tp4 --zone us-east1-d
    """
    from xlahouse.capture.tpu import vm

    if not (yes or dry_run):
        typer.confirm(f"Delete {name} in {zone}, with the traces on it?", abort=True, err=True)
    vm.delete(_gcloud(zone, project, dry_run), name)


def _gcloud(zone: str, project: str | None, dry_run: bool) -> Gcloud:
    from xlahouse.capture.tpu.gcloud import Gcloud

    return Gcloud(zone, project, print if dry_run else _say, dry_run)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
