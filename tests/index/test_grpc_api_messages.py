"""Wire format of ``api.Registry``: names, numbers and types that other clients expect."""

from __future__ import annotations

from google.protobuf.json_format import MessageToDict

from opmkit.index.grpc_api import METHODS, file_descriptor, message_class, request_class


def test_fields_of_a_bundle() -> None:
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


def test_fields_of_a_request() -> None:
    request = request_class("GetBundleThatReplaces")(csvName="a", pkgName="b", channelName="c")
    assert request.SerializeToString() == b"\x0a\x01a\x12\x01b\x1a\x01c"


def test_paths_and_streaming_methods() -> None:
    assert METHODS["ListBundles"].path == "/api.Registry/ListBundles"
    assert {name for name, method in METHODS.items() if method.streams} == {
        "ListPackages",
        "ListBundles",
        "GetChannelEntriesThatReplace",
        "GetChannelEntriesThatProvide",
        "GetLatestChannelEntriesThatProvide",
    }


def test_one_method_is_deprecated() -> None:
    methods = file_descriptor().service[0].method
    assert [method.name for method in methods if method.options.deprecated] == ["GetBundleForChannel"]
