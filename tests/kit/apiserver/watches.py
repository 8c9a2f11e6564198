"""Watches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.kit.apiserver.errors import ApiError
from tests.kit.apiserver.requests import in_version, is_selected, selected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kit.apiserver.requests import Request
    from tests.kit.apiserver.store import Object, Store


def watched(store: Store, request: Request, is_dropped: Callable[[], bool]) -> Iterator[Object]:
    """Yield the events of a watch until its time is over or it is dropped."""
    deadline = time.monotonic() + float(request.parameters.get("timeoutSeconds", 300))
    start = int(request.parameters.get("resourceVersion") or 0)
    if start and start < store.first_version:
        error = ApiError(410, "Expired", f"too old resource version: {start} ({store.first_version})")
        yield {"type": "ERROR", "object": error.status}
        return
    with store.changed:
        if not start:
            events = [("ADDED", obj) for obj in selected(store, request)]
            start = store.version
        else:
            events = []
    while True:
        for change, obj in events:
            yield {"type": change, "object": in_version(obj, request.type)}
        with store.changed:
            while not (news := [each for each in store.log if each.version > start]):
                left = deadline - time.monotonic()
                if left <= 0 or is_dropped():
                    return
                store.changed.wait(min(left, 1))
            start = news[-1].version
            events = [(each.type, each.object) for each in news if is_selected(request, each.key, each.object)]
