"""Pipelines as Code, which runs the pipelines of a repository for its events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from tests.kit.guides import with_opm
from tests.kit.tekton import RunResult, matching_runs, run_pipeline_run

if TYPE_CHECKING:
    from tests.kit.pipelines import Runner

KUBECTL = """\
#!/bin/sh
case "$*" in
  "create namespace "*) ;;
  "create secret generic "*) mkdir "$SECRETS/$4" && cp "${7#--from-file=config.json=}" "$SECRETS/$4/config.json" ;;
  "apply --namespace "*) cp "$5" "$SECRETS/applied.yaml" ;;
  *) exit 1 ;;
esac
"""


class PipelinesAsCode:
    """Pipelines as Code for a repository, with the secrets that ``kubectl`` creates."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._secrets = runner.scratch / "secrets"
        for name in (".git-credentials", ".gitconfig"):
            (self._secrets / "git-auth").mkdir(parents=True, exist_ok=True)
            (self._secrets / "git-auth" / name).touch()

    def with_kubectl(self) -> Runner:
        """Return the runner with a ``kubectl`` for the commands of the page."""
        tools = self._runner.scratch / "tools"
        tools.mkdir()
        (tools / "kubectl").write_text(KUBECTL)
        (tools / "kubectl").chmod(0o755)
        runner = with_opm(self._runner)
        return replace(runner, env={**runner.env, "SECRETS": str(self._secrets)})

    def repository(self) -> Any:
        """Return the object that was applied."""
        return yaml.safe_load((self._secrets / "applied.yaml").read_text())

    def push(self, event: str, ref: str) -> RunResult:
        """Commit and push everything, and run the pipeline of an event."""
        self._git("add --all")
        self._git("commit --quiet --allow-empty --message change")
        self._git("push --quiet --force origin HEAD:refs/heads/change")
        return self.run(event, ref, "change")

    def run(self, event: str, ref: str, branch: str = "") -> RunResult:
        """Run the pipeline of an event, for the pushed revision of a branch or of the ref itself."""
        checkout = self._runner.directory / "lagoon-operator"
        url = self._git("ls-remote --get-url origin")
        revision = self._git(f"ls-remote origin {branch or ref}").split()[0]
        event_variables = {
            "repo_url": url,
            "revision": revision,
            "target_branch": ref.removeprefix("refs/heads/"),
            "source_branch": branch if event == "pull_request" else ref,
            "git_auth_secret": "git-auth",
        }
        (name,) = matching_runs(checkout / ".tekton", event, ref)
        secrets = {path.name: path for path in self._secrets.iterdir()}
        return run_pipeline_run(replace(self._runner, directory=checkout), name, event_variables, secrets)

    def _git(self, command: str) -> str:
        done = self._runner.run(f"git {command}", directory=self._runner.directory / "lagoon-operator")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
