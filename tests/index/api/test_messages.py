"""The messages of ``api.Registry`` on the wire: names, numbers and types are what other clients expect."""

from __future__ import annotations

from google.protobuf.json_format import MessageToDict

from opmkit.index.api.messages import METHODS, describe, message_class


def test_a_bundle_is_laid_out_as_the_published_protocol_says():
    bundle = message_class("Bundle")(
        csvName="lagoon.v1",
        object=["{}"],
        providedApis=[{"group": "g", "plural": "p"}],
        replaces="r",
        skips=["s"],
        deprecation={"message": "old"},
    )
    assert bundle.SerializeToString() == (
        b"\x0a\x09lagoon.v1"
        + b"\x2a\x02{}"
        + b"\x3a\x06\x0a\x01g\x22\x01p"
        + b"\x6a\x01r"
        + b"\x72\x01s"
        + b"\x7a\x05\x0a\x03old"
    )
    assert MessageToDict(bundle)["csvName"] == "lagoon.v1"


def test_the_request_for_a_replacement_names_the_bundle_first():
    request = METHODS["GetBundleThatReplaces"].request(csvName="a", pkgName="b", channelName="c")
    assert request.SerializeToString() == b"\x0a\x01a\x12\x01b\x1a\x01c"


def test_methods_have_the_paths_and_streams_that_clients_call():
    assert METHODS["ListBundles"].path == "/api.Registry/ListBundles"
    assert {name for name, method in METHODS.items() if method.streams} == {
        "ListPackages",
        "ListBundles",
        "GetChannelEntriesThatReplace",
        "GetChannelEntriesThatProvide",
        "GetLatestChannelEntriesThatProvide",
    }


def test_only_the_method_that_the_protocol_calls_deprecated_is_so():
    methods = describe().service[0].method
    assert [method.name for method in methods if method.options.deprecated] == ["GetBundleForChannel"]
