"""The policy.json of the user or the system, which every image that is read must satisfy: containers-policy.json(5)."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from opmkit.core.environment import config_home
from opmkit.core.errors import LimitExceeded
from opmkit.core.files import read_limited
from opmkit.imagetools.reference import Reference, StoreReference, pin_reference
from opmkit.imagetools.registry.options import RegistryOptions
from opmkit.imagetools.registry_config.settings import SYSTEM_DIRECTORY
from opmkit.imagetools.signatures.errors import InvalidSignaturePolicy
from opmkit.imagetools.spec import IndexManifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.signatures.policy import SignaturePolicy
    from opmkit.imagetools.signatures.requirement import Requirements
    from opmkit.imagetools.spec import Descriptor

_NAME = "containers/policy.json"
_ANY_DIGEST = f"sha256:{'0' * 64}"


class TrustPolicy:
    """The policy for images that are read, loaded on first use. Thread-safe.

    Without a file, every image is accepted. Names are matched before mirrors and ``location`` of registries.conf apply.
    """

    def __init__(
        self,
        options: RegistryOptions | None = None,
        environ: Mapping[str, str] = os.environ,
        system: Path = SYSTEM_DIRECTORY,
    ) -> None:
        """Use the file that ``options`` name, or that of the user, or that in the directory ``system``."""
        self._options = options or RegistryOptions()
        self._environ = environ
        self._system = system
        self._lock = threading.Lock()
        self._loaded: tuple[SignaturePolicy | None] | None = None
        self._accepted: set[tuple[str, str]] = set()
        """Names and digests of accepted images; the name by digest, too, because it is used from then on."""

    def accepts_unsigned(self, reference: ImageReference) -> bool:
        """Return whether an image is accepted as it is, given its full name; raise ImageToolsError."""
        return self._policy is None or _accepts_all(self._policy.requirements_on(reference))

    def admit(self, reference: ImageReference, source: ImageSource, identifier: str) -> str:
        """Check an image, and return the identifier to read it by: the digest that was checked, if any was.

        Args:
            reference: The full name that the user gave, whose tag or digest selects the requirements.
            source: The place of the image and its signatures.
            identifier: The image in that place, by tag or digest.

        Raises:
            VerificationFailed: The image does not satisfy the policy.
            ImageToolsError: The policy is invalid, or the image or its signatures cannot be read.
        """
        policy = self._policy
        if policy is None or (str(reference), identifier) in self._accepted:
            return identifier
        required = policy.requirements_on(reference)
        accepts_all = _accepts_all(required)
        if accepts_all and required == _requirements_by_digest(policy, reference):
            return identifier
        for requirement in required:
            requirement.check_always(str(reference))
        image = source.resolve(identifier)
        accepted = (str(reference), image.digest)
        if accepted not in self._accepted:
            if not accepts_all:
                self._check(required, reference, source, image)
            self._accepted |= {accepted, (str(pin_reference(reference, image.digest)), image.digest)}
        return image.digest

    def _check(self, required: Requirements, reference: ImageReference, source: ImageSource, image: Descriptor) -> None:
        """Raise VerificationFailed unless an image, or each image in an index, satisfies the requirements."""
        from opmkit.imagetools.signatures.attachments import SignatureTarget, require_signature_storage
        from opmkit.imagetools.signatures.errors import VerificationFailed
        from opmkit.imagetools.signatures.lookaside import Lookaside
        from opmkit.imagetools.signatures.policy import canonical_reference
        from opmkit.imagetools.signatures.requirement import CheckedImage

        require_signature_storage(reference)
        named = reference.reference if isinstance(reference, StoreReference) else reference
        name = canonical_reference(named) if isinstance(named, Reference) else None
        lookaside = Lookaside(self._options, self._environ, self._system)

        def check(checked: Descriptor) -> None:
            target = SignatureTarget(
                source, checked, named.name if isinstance(named, Reference) else "", str(reference)
            )
            subject = f"{reference}" if checked == image else f"{reference}: image {checked.digest}"
            image_to_check = CheckedImage(subject, name, (target,), lookaside)
            for requirement in required:
                requirement.check(image_to_check)

        try:
            check(image)
        except VerificationFailed:
            manifest = source.get_manifest(image.digest)
            if not isinstance(manifest, IndexManifest) or not manifest.images:
                raise
            for child in manifest.images:
                check(child)

    @property
    def _policy(self) -> SignaturePolicy | None:
        with self._lock:
            if self._loaded is None:
                self._loaded = (self._load(),)
            return self._loaded[0]

    def _load(self) -> SignaturePolicy | None:
        path = self._find()
        if path is None:
            return None
        from opmkit.imagetools.signatures.policy import SignaturePolicy  # slow to import: most machines have no policy

        try:
            if self._options.signature_policy is None and path.exists() and not path.is_file():
                raise OSError("not a regular file")
            return SignaturePolicy.parse(read_limited(path), str(path))
        except OSError as error:
            raise InvalidSignaturePolicy(
                f"signature policy {path}: {error.strerror or error}",
                hint="correct it, or remove it; see containers-policy.json(5)",
            ) from error
        except LimitExceeded as error:
            raise InvalidSignaturePolicy(f"signature policy {error.message}", hint="check the path") from error

    def _find(self) -> Path | None:
        if self._options.insecure_policy:
            return None
        if self._options.signature_policy is not None:
            return self._options.signature_policy
        directory = config_home(self._environ)
        users = directory and directory / _NAME
        return next((path for path in (users, self._system / _NAME) if path and _is_configured(path)), None)


def _is_configured(path: Path) -> bool:
    """Return whether a policy exists, or cannot be found because of a link that leads nowhere or a closed directory.

    Otherwise, these would turn it off.
    """
    directory = path.parent
    is_open = os.path.isdir(directory) and os.access(directory, os.X_OK)  # noqa: PTH112
    return os.path.lexists(path) or (os.path.lexists(directory) and not is_open)


def _accepts_all(requirements: Requirements) -> bool:
    return all(requirement.accepts_all for requirement in requirements)


def _requirements_by_digest(policy: SignaturePolicy, reference: ImageReference) -> Requirements:
    """Return the requirements on an image when it is read by its digest instead of its tag."""
    if not isinstance(reference, Reference) or reference.digest:
        return policy.requirements_on(reference)
    return policy.requirements_on(reference.with_digest(_ANY_DIGEST))
