"""SQL of the queries of a server, and of the temporary tables that they use."""

GVK = "olm.gvk"
"""The type of properties and dependencies that name an API."""

ENTRY_TABLES = """
CREATE TEMP TABLE entry (id INTEGER PRIMARY KEY, package, channel, bundle, replaces, depth);
INSERT INTO entry SELECT entry_id, package_name, channel_name, operatorbundle_name, replaces, depth FROM channel_entry;
CREATE INDEX temp.entry_place ON entry (package, channel, bundle);
CREATE INDEX temp.entry_bundle ON entry (bundle);
CREATE INDEX temp.entry_replaces ON entry (replaces);
CREATE TEMP TABLE bundle (number INTEGER PRIMARY KEY, name UNIQUE);
INSERT INTO bundle (name) SELECT name FROM operatorbundle WHERE name IS NOT NULL ORDER BY name;
"""
PROVIDED_TABLE = f"""
CREATE TEMP TABLE provided (api, bundle, PRIMARY KEY (api, bundle)) WITHOUT ROWID;
INSERT OR IGNORE INTO provided SELECT value, operatorbundle_name FROM properties
WHERE type = '{GVK}' AND value IS NOT NULL AND operatorbundle_name IS NOT NULL;
"""  # noqa: S608 - constant names
VALUE_TABLES = """
CREATE TEMP TABLE property_row (bundle, number, PRIMARY KEY (bundle, number)) WITHOUT ROWID;
INSERT INTO property_row SELECT operatorbundle_name, rowid FROM properties WHERE operatorbundle_name IS NOT NULL;
CREATE TEMP TABLE dependency_row (bundle, number, PRIMARY KEY (bundle, number)) WITHOUT ROWID;
INSERT INTO dependency_row SELECT operatorbundle_name, rowid FROM dependencies WHERE operatorbundle_name IS NOT NULL;
"""

PACKAGES = "SELECT DISTINCT name FROM package WHERE name IS NOT NULL ORDER BY name"
HEADS = """
SELECT DISTINCT package.name, coalesce(default_channel, ''), coalesce(channel.name, ''),
    coalesce(head_operatorbundle_name, '')
FROM package JOIN channel ON channel.package_name = package.name
WHERE package.name IS NOT NULL ORDER BY 1, 3, 4"""
HEAD_NUMBERS = """
SELECT coalesce(package_name, ''), coalesce(channel.name, ''), number
FROM channel JOIN bundle ON bundle.name = head_operatorbundle_name"""
BUNDLE_IN_CHANNEL = """
SELECT number FROM entry JOIN bundle ON name = bundle WHERE package = ? AND channel = ? AND bundle = ? LIMIT 1"""
ENTRIES_REPLACING = """
SELECT DISTINCT coalesce(entry.package, ''), coalesce(entry.channel, ''), coalesce(entry.bundle, '')
FROM entry AS before JOIN entry ON entry.replaces = before.id WHERE before.bundle = ? ORDER BY 1, 2, 3"""
REPLACEMENT = """
SELECT number FROM entry AS before JOIN entry ON entry.replaces = before.id JOIN bundle ON name = entry.bundle
WHERE before.bundle = ? AND before.package = ? AND before.channel = ?
ORDER BY entry.depth IS NULL, entry.depth, name LIMIT 1"""
ENTRIES_PROVIDING = """
SELECT DISTINCT coalesce(entry.package, ''), coalesce(entry.channel, ''), entry.bundle, coalesce(before.bundle, '')
FROM provided JOIN entry ON entry.bundle = provided.bundle LEFT JOIN entry AS before ON before.id = entry.replaces
WHERE api = ? ORDER BY 1, 2, 3, 4"""
# The entry with the smallest depth in each channel, then the first by name.
LATEST_PROVIDING = """
SELECT package, channel, bundle, replaces FROM (
    SELECT coalesce(entry.package, '') AS package, coalesce(entry.channel, '') AS channel, entry.bundle AS bundle,
        coalesce(before.bundle, '') AS replaces, row_number() OVER (
            PARTITION BY entry.package, entry.channel
            ORDER BY entry.depth IS NULL, entry.depth, entry.bundle, before.bundle
        ) AS place
    FROM provided JOIN entry ON entry.bundle = provided.bundle LEFT JOIN entry AS before ON before.id = entry.replaces
    WHERE api = ?
) WHERE place = 1 ORDER BY 1, 2"""
DEFAULT_PROVIDER = """
SELECT package, channel, number FROM (
    SELECT entry.package AS package, entry.channel AS channel, number, name AS chosen
    FROM provided JOIN entry ON entry.bundle = provided.bundle JOIN bundle ON name = entry.bundle
    WHERE api = ? AND (entry.package, entry.channel) IN (SELECT name, default_channel FROM package)
    ORDER BY 1, entry.depth IS NULL, entry.depth, name LIMIT 1
) WHERE (SELECT operatorbundle.bundle FROM operatorbundle WHERE operatorbundle.name = chosen) IS NOT NULL"""

# The edges of entries on the chain from the heads are replaces, other edges are skips. The heads are the entries with
# the smallest depth of the whole index, since depths start at 0 in every channel.
LISTED_BUNDLES = """
WITH RECURSIVE chain (id, replaces) AS (
    SELECT id, replaces FROM entry WHERE depth = (SELECT min(depth) FROM entry)
    UNION
    SELECT entry.id, entry.replaces FROM chain JOIN entry ON entry.id = chain.replaces
), skipped (package, channel, bundle, skips) AS (
    SELECT coalesce(entry.package, ''), entry.channel, entry.bundle, group_concat(before.bundle, ',')
    FROM entry JOIN entry AS before ON before.id = entry.replaces
    WHERE NOT EXISTS (SELECT 1 FROM chain WHERE chain.id = entry.id)
    GROUP BY 1, 2, 3
), listed (package, channel, bundle, replaces) AS (
    SELECT coalesce(entry.package, ''), entry.channel, entry.bundle, max(before.bundle)
    FROM entry LEFT JOIN chain ON chain.id = entry.id LEFT JOIN entry AS before ON before.id = chain.replaces
    GROUP BY 1, 2, 3
)
SELECT listed.package, listed.channel, number, coalesce(replaces, ''), skips
FROM listed JOIN bundle ON name = listed.bundle LEFT JOIN skipped
    ON skipped.package = listed.package AND skipped.channel = listed.channel AND skipped.bundle = listed.bundle
WHERE listed.channel IS NOT NULL
ORDER BY 1, 2, listed.bundle"""

BUNDLE = """
SELECT name, version, bundlepath, coalesce(skiprange, ''),
    CASE WHEN ? AND length(coalesce(bundlepath, '')) > 0 THEN NULL ELSE CAST(bundle AS BLOB) END
FROM operatorbundle WHERE name = (SELECT name FROM temp.bundle WHERE number = ?)"""
CSV = """
SELECT name, CAST(coalesce(csv, '') AS BLOB) FROM operatorbundle
WHERE name = (SELECT name FROM temp.bundle WHERE number = ?)"""
_VALUES_OF = """
SELECT CAST(type AS TEXT), CAST(value AS TEXT), operatorbundle_version, operatorbundle_path
FROM {0} JOIN {1} ON number = {0}.rowid WHERE bundle = ? ORDER BY 1, 2, 3, 4"""
PROPERTIES = _VALUES_OF.format("properties", "property_row")
DEPENDENCIES = _VALUES_OF.format("dependencies", "dependency_row")
PLURAL = "SELECT plural FROM api WHERE group_name = ? AND version = ? AND kind = ?"
