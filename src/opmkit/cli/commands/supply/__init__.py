"""Commands for those who ship catalogs; they require :mod:`opmkit.supply`."""
