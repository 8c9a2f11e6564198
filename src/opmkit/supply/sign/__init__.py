"""Signatures and attestations of images in the formats of cosign and Sigstore.

`keys` and `key_files` import cryptographic libraries; other modules import them where they are needed.
"""
