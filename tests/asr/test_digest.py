import hashlib

from hypothesis import given
from hypothesis import strategies as st

from asr.digest import sha256


@given(st.binary(max_size=300))
def test_digests_are_those_of_hashlib(data: bytes) -> None:
    assert sha256(data) == hashlib.sha256(data).hexdigest()


def test_known_digest() -> None:
    # NIST's example of FIPS 180-4: "abc"
    assert sha256(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
