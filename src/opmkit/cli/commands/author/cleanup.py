"""``opm cleanup``: remove an operator that was run in a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from opmkit.cli.flags.cluster import ClusterFlags
from opmkit.cli.flags.olm import DEFAULT_TIMEOUT, Timeout, parse_timeout
from opmkit.cli.flags.output import Output, ProgressFlags
from opmkit.cli.output.console import OutputFormat, print_json, print_table
from opmkit.cli.output.errors import print_warning
from opmkit.cli.output.status_lines import report_status
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import flag


def cleanup(
    *,
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="Package of the operator")],
    delete_all: bool = flag(
        True, "Also do what --delete-crds and --delete-operator-groups do", "--delete-all/--no-delete-all"
    ),
    delete_crds: bool = flag(False, "Delete the operator's CustomResourceDefinitions and custom resources"),
    delete_operator_groups: bool = flag(False, "Delete the OperatorGroup created for the operator"),
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
    service_account: str = flag("", ""),
    progress_flags: ProgressFlags,
    cluster_flags: ClusterFlags,
) -> None:
    """Remove an operator from a cluster, with everything that opm run created

    This includes its CustomResourceDefinitions with all custom resources, unless --delete-all=false is given. Objects
    that other operators use are retained.

    [bold]Examples:[/]
      opm cleanup lagoon-operator
      opm cleanup lagoon-operator -n lagoon --delete-all=false
    """
    from opmkit import CleanupOptions
    from opmkit.api import Opm

    options = CleanupOptions(delete_all or delete_crds, delete_all or delete_operator_groups, parse_timeout(timeout))
    with report_status() as reporter:
        removed = Opm().clean_up(package, cluster_flags.access(), options, reporter=reporter)
    if not removed.objects:  # exit code 0, as with operator-sdk: scripts clean up before they install
        print_warning(f"package {package}: not found in namespace {removed.namespace}")
    with printing_result(f"package {package} removed"):
        if output is OutputFormat.JSON:
            print_json(removed.to_dict())
        elif removed.objects:
            rows = [(each.kind, each.namespace or "-", each.name, each.result, each.reason) for each in removed.objects]
            print_table(("KIND", "NAMESPACE", "NAME", "RESULT", "REASON"), rows)
