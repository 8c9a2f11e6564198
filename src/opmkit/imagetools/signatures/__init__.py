"""Signatures and attestations of images in the formats of cosign and Sigstore, and the policies that require them.

`keys` imports cryptographic libraries; other modules import it where it is needed.
"""
