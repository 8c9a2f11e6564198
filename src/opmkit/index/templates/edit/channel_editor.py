"""Editor of the channels and the bundle images of a template."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.hint_terms import BundleSetting
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE, BundleBlob, PackageBlob
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.suggestions import did_you_mean, join_names
from opmkit.index.templates.edit.edges import PlacementError, place_entry, promoted_edges
from opmkit.index.templates.edit.template import actual_key, check_edit
from opmkit.index.templates.edit.write import TemplateChange, TemplateEdit, entry_change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import ChannelBlob, EntryBlob, SourceLocation
    from opmkit.index.templates.edit.edges import EdgeOptions, PlacedEntry
    from opmkit.index.templates.edit.template import BundleVersions, EditableTemplate, LocatedBlob, TemplateBundle


class ChannelEditor:
    """Editor of the channels of one package.

    Attributes:
        template: The template with the changes so far.
        changes: The changes so far.
    """

    def __init__(self, template: EditableTemplate, package: str, versions: BundleVersions) -> None:
        """Create an editor without changes."""
        self.template = template
        self.changes: list[TemplateChange] = []
        self._before = template
        self._package = package
        self._versions = versions

    def channels(self) -> list[ChannelBlob]:
        """Return the channels of the package."""
        return [channel for channel in self.template.blobs().channels if channel.package == self._package]

    def check_package(self, bundle: TemplateBundle) -> None:
        """Raise InvalidCatalog if the template is that of other packages."""
        blobs = self.template.blobs()
        named: list[PackageBlob | ChannelBlob] = [*blobs.packages, *blobs.channels]
        names = sorted({blob.package for blob in named})
        if names and bundle.package not in names:
            finding = CatalogFinding(
                f'the bundle belongs to package "{bundle.package}", but the template to {join_names(names)}',
                bundle=bundle.name,
            )
            raise InvalidCatalog(str(finding.at(named[0].location)), hint="name the template of that package")

    def replace_image(self, bundle: TemplateBundle, *, overwrite: bool) -> bool:
        """Replace the image of a bundle that is in the template with another one, and return whether it has been.

        Raises:
            InvalidCatalog: It has another image, and ``overwrite`` is not set.
        """
        blobs = self.template.blobs()
        if any(blob.image == bundle.image for blob in blobs.bundles):
            return overwrite and self._owner(bundle.name) is not None
        owner = self._owner(bundle.name)
        names = {entry.name for channel in blobs.channels for entry in channel.entries}
        old = self._image_of(bundle.name) if owner and (overwrite or len(names) > len(blobs.bundles)) else ""
        if owner is None or (not old and len(names) > len(blobs.bundles)):
            return False  # an entry whose bundle is not listed yet
        if not old or not overwrite:
            raise self._other_image(bundle, owner)
        for located in self.template.located_blobs:
            if isinstance(located.blob, BundleBlob) and located.blob.image == old:
                key = actual_key(self.template.value_at(located.document, located.path), "image")
                self.template = self.template.set(located.document, (*located.path, key), bundle.image)
        text = f"{old} replaced by {bundle.image}"
        values = (("bundle", bundle.name), ("image", bundle.image), ("oldImage", old))
        self.changes.append(TemplateChange("replace-image", "bundles", text, values))
        return True

    def _owner(self, name: str) -> ChannelBlob | None:
        """Return the first channel that has a bundle."""
        return next(
            (channel for channel in self.channels() if any(entry.name == name for entry in channel.entries)), None
        )

    def _image_of(self, name: str) -> str:
        """Return the image of a bundle, or "" if the template lists none; names in the template need not be read."""
        named = (blob.image for blob in self.template.blobs().bundles if blob.name == name)
        return next(named, "") or self._versions.image_of(name)

    def _other_image(self, bundle: TemplateBundle, owner: ChannelBlob) -> InvalidCatalog:
        finding = CatalogFinding(
            f"already in the channel, and the template does not list {bundle.image}",
            package=bundle.package,
            channel=owner.name,
            bundle=bundle.name,
        )
        replace_hint = Hint("replace its image with {}", BundleSetting.OVERWRITE)
        hint = Hint.any_of(replace_hint, "build the bundle with another version")
        return InvalidCatalog(str(finding.at(owner.location)), hint=hint)

    def resolve_channels(self, names: Sequence[str]) -> Sequence[str]:
        """Return the channels to add a bundle to; raise CatalogError if there are several, and none is named."""
        known = sorted(channel.name for channel in self.channels())
        if names or len(known) == 1:
            return names or known
        found = f"it has {len(known)} channels" if known else "it has no channels"
        raise CatalogError(
            f"{self.template.name}: no channel given: {found}",
            hint=Hint("pass {}", IndexSetting.CHANNEL.with_value(",".join(known) or "NAME")),
        )

    def check_channel(self, name: str, *, create: bool) -> None:
        """Raise InvalidCatalog unless a channel exists, ``create`` is set, or the package has no channels."""
        known = sorted(channel.name for channel in self.channels())
        if name in known:
            return
        if known and not create:
            finding = CatalogFinding(f'channel "{name}" not found', package=self._package)
            similar = did_you_mean(name, known) or f"use one of the channels: {join_names(known)}"
            hint = Hint.all_of(similar, Hint("create it with {}", IndexSetting.CREATE_CHANNEL))
            raise InvalidCatalog(str(finding.at(self._package_location())), hint=hint)

    def place(
        self,
        action: str,
        channel: str,
        name: str,
        edges: EdgeOptions,
        origin: tuple[ChannelBlob, EntryBlob] | None = None,
        default_range: str = "",
    ) -> None:
        """Add a bundle to a channel.

        Args:
            action: The kind of the change.
            channel: The name of the channel.
            name: The name of the bundle.
            edges: Its edges.
            origin: The channel and the entry whose edges it has otherwise.
            default_range: Its range of versions to skip, unless the edges have one.
        """
        found = self.template.find_channel(self._package, channel)
        entries = found[1].entries if found else ()
        location = found[0].location if found else self._package_location()
        try:
            if origin:
                edges = promoted_edges(origin[0].entries, origin[1], entries, edges, self._versions)
            present = any(entry.name == name for entry in entries)
            if not present and edges.skip_range is None:
                edges = replace(edges, skip_range=default_range)
            placed = None if present and origin else place_entry(entries, name, edges, self._versions)
        except PlacementError as error:
            finding = CatalogFinding(error.message, package=self._package, channel=channel)
            raise InvalidCatalog(str(finding.at(location)), hint=error.hint) from error
        if placed is None:
            return
        if found is None:
            self._create_channel(channel, placed.entry)
        else:
            self._insert_entry(found[0], placed)
        self.changes.append(entry_change(action, channel, placed.entry))
        self.changes += [_rewired(channel, updater, name) for updater in placed.rewired]

    def _create_channel(self, name: str, entry: EntryBlob) -> None:
        """Create a channel, and the package if the template lacks it."""
        if self._last(PACKAGE) is None:
            self._insert({"schema": PACKAGE, "name": self._package, "defaultChannel": name}, None)
            self.changes.append(TemplateChange("create-package", f"package {self._package}", "created"))
        anchor = self._last(CHANNEL) or self._last(PACKAGE)
        fields: dict[str, JsonValue] = {"schema": CHANNEL, "package": self._package, "name": name}
        self._insert({**fields, "entries": [_entry_fields(entry)]}, anchor)
        self.changes.append(TemplateChange("create-channel", f"channel {name}", "created", (("channel", name),)))

    def _insert_entry(self, channel: LocatedBlob, placed: PlacedEntry) -> None:
        value = self.template.value_at(channel.document, channel.path)
        path = (*channel.path, actual_key(value, "entries"))
        for updater in placed.rewired:
            number = next(
                number
                for number, entry in enumerate(self.template.value_at(channel.document, path))  # type: ignore[arg-type]
                if entry[actual_key(entry, "name")] == updater  # type: ignore[index, call-overload]
            )
            entry = self.template.value_at(channel.document, (*path, number))
            key = actual_key(entry, "replaces")
            self.template = self.template.set(channel.document, (*path, number, key), placed.entry.name)
        self.template = self.template.insert(channel.document, path, placed.index, _entry_fields(placed.entry))

    def list_image(self, bundle: TemplateBundle) -> None:
        """List the image of a bundle, unless it is listed; with its name if the last one that is listed has a name."""
        if all(blob.image != bundle.image for blob in self.template.blobs().bundles):
            last = self._last(BUNDLE)
            name: dict[str, JsonValue] = {"name": bundle.name} if last and last.blob.name else {}
            self._insert({"schema": BUNDLE, **name, "image": bundle.image}, last)
            values = (("bundle", bundle.name), ("image", bundle.image))
            self.changes.append(TemplateChange("list-image", "bundles", f"{bundle.image} added", values))

    def set_default(self, channel: str) -> None:
        """Set the default channel of the package."""
        located = self._last(PACKAGE)
        if located and isinstance(located.blob, PackageBlob) and located.blob.default_channel != channel:
            value = self.template.value_at(located.document, located.path)
            path = (*located.path, actual_key(value, "defaultChannel"))
            self.template = self.template.set(located.document, path, channel)
            text, values = f"default channel {channel}", (("channel", channel),)
            self.changes.append(TemplateChange("set-default-channel", f"package {self._package}", text, values))

    def finish(self) -> TemplateEdit:
        """Return the edited template; raise InvalidCatalog if it is invalid."""
        if not self.changes:
            return TemplateEdit(self._before)
        return TemplateEdit(self.template, tuple(self.changes), check_edit(self._before, self.template))

    def _insert(self, value: JsonValue, after: LocatedBlob | None) -> None:
        self.template = self.template.insert_blob(value, after)

    def _last(self, schema: str) -> LocatedBlob | None:
        """Return the last blob of a schema and the package; images of bundles have no package."""
        found = [
            located
            for located in self.template.located_blobs
            if located.blob.schema == schema and located.blob.package in (self._package, "")
        ]
        return found[-1] if found else None

    def _package_location(self) -> SourceLocation:
        located = self._last(PACKAGE)
        return located.location if located else self.template.file.location(())


def _entry_fields(entry: EntryBlob) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        "name": entry.name,
        "replaces": entry.replaces,
        "skips": list(entry.skips),
        "skipRange": entry.skip_range,
    }
    return {name: value for name, value in fields.items() if value}


def _rewired(channel: str, updater: str, name: str) -> TemplateChange:
    values = (("channel", channel), ("bundle", updater), ("replaces", name))
    return TemplateChange("rewire", f"channel {channel}", f"{updater} replaces {name}", values)
