"""Compression and entity tags of responses."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.service.encoded_response import MIN_COMPRESSED, encode_body, encode_response
from zonewise_common.service.handlers import Request, Response, text_response

LONG = b"a" * MIN_COMPRESSED


def request(**headers: str) -> Request:
    return Request("GET", "/", headers={name.replace("_", "-"): value for name, value in headers.items()})


@given(st.binary(max_size=3000))
def test_a_client_gets_the_same_body_with_and_without_gzip(body: bytes) -> None:
    encoded = encode_body("text/plain", body)
    assert encoded.response(request()).body == body
    compressed = encoded.response(request(accept_encoding="gzip"))
    is_compressed = ("Content-Encoding", "gzip") in compressed.headers
    assert is_compressed == (len(body) >= MIN_COMPRESSED)
    assert (gzip.decompress(compressed.body) if is_compressed else compressed.body) == body


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [("", False), ("br", False), ("br, gzip;q=0.5", True), ("*", True), ("gzip;q=0", False), ("GZIP", True)],
)
def test_accept_encoding_decides(accepted: str, is_compressed: bool) -> None:
    response = encode_body("text/plain", LONG).response(request(accept_encoding=accepted))
    assert (("Content-Encoding", "gzip") in response.headers) == is_compressed


def test_a_client_with_the_body_gets_304() -> None:
    encoded = encode_body("text/plain", LONG)
    for tags in (encoded.tag, f'"other", W/{encoded.tag}', "*"):
        response = encoded.response(request(if_none_match=tags))
        assert (response.status, response.body) == (304, b"")
        assert ("ETag", encoded.tag) in response.headers
    assert encoded.response(request(if_none_match='"other"')).status == 200
    assert encode_body("text/plain", LONG + b"b").tag != encoded.tag


def test_errors_are_not_encoded() -> None:
    error = text_response(503, "x" * 5000)
    assert encode_response(request(accept_encoding="gzip"), error) is error
    encoded = encode_response(request(accept_encoding="gzip"), Response(200, "text/plain", LONG))
    assert gzip.decompress(encoded.body) == LONG
