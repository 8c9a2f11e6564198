"""TLS settings of connections to API servers."""

from __future__ import annotations

import ssl

from opmkit.kube.connection import Server
from opmkit.kube.transport import tls_context


def test_certificates_are_verified_as_go_does() -> None:
    context = tls_context(Server("https://api.test"), None)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert tls_context(Server("https://api.test", verify_tls=False), None).verify_mode is ssl.CERT_NONE
