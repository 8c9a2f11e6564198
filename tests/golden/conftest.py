"""Fixtures with the images of the corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.corpus import Corpus, LayoutCorpus, RegistryCorpus

if TYPE_CHECKING:
    from tests.kit.registry import Registry


@pytest.fixture(scope="session")
def registry_corpus(registry: Registry) -> Corpus:
    return RegistryCorpus(registry.host)


@pytest.fixture(scope="session")
def layout_corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return LayoutCorpus(tmp_path_factory.mktemp("layouts"))


@pytest.fixture
def corpus(request: pytest.FixtureRequest) -> Corpus:
    """Return the corpus of the parameter, ``registry`` (default) or ``layouts``."""
    fixture = {"registry": "registry_corpus", "layouts": "layout_corpus"}[getattr(request, "param", "registry")]
    corpus: Corpus = request.getfixturevalue(fixture)
    return corpus
