"""Foresight: what clusters do with a catalog, computed as the resolvers of OLM do, without a cluster.

The functions of this package take catalogs, installed operators, Subscriptions and ClusterExtensions as values, and
return steps and reasons. They neither read nor write anything.
"""
