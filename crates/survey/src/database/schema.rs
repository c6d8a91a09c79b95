//! The tables, version by version. A released version never changes; a change is a new version.
//!
//! docs/survey.md describes them for readers with other programs.

/// `application_id` of the file, `flsv`.
pub const APPLICATION_ID: i64 = 0x666c_7376;

/// What makes each version from the one before; the first from an empty file.
pub const MIGRATIONS: &[&str] = &[VERSION_1, VERSION_2, VERSION_3];

/// The newest version.
pub fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("few versions")
}

const VERSION_1: &str = "
CREATE TABLE salt (
    bytes BLOB NOT NULL PRIMARY KEY CHECK (length(bytes) = 32),
    is_own INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE card (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    manufacturer TEXT NOT NULL,
    oem TEXT NOT NULL,
    product TEXT NOT NULL,
    revision TEXT NOT NULL,
    manufactured TEXT NOT NULL,
    capacity_bytes INTEGER,
    is_individual INTEGER NOT NULL,
    is_simulated INTEGER NOT NULL,
    name TEXT NOT NULL,
    serial TEXT
) STRICT;

CREATE TABLE card_key (
    key TEXT NOT NULL PRIMARY KEY CHECK (length(key) = 64),
    card INTEGER NOT NULL REFERENCES card(id)
) STRICT, WITHOUT ROWID;
CREATE INDEX card_key_card ON card_key(card);

CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    address TEXT NOT NULL UNIQUE CHECK (length(address) = 64),
    origin TEXT NOT NULL UNIQUE,
    rank INTEGER NOT NULL,
    kind TEXT NOT NULL,
    card INTEGER NOT NULL REFERENCES card(id),
    is_simulated INTEGER NOT NULL,
    created_unix_s INTEGER,
    tool_version TEXT NOT NULL,
    kernel TEXT NOT NULL,
    machine TEXT NOT NULL,
    processors INTEGER,
    test_bed TEXT NOT NULL,
    firmware TEXT NOT NULL,
    conditions TEXT NOT NULL,
    erase_block_bytes INTEGER,
    write_unit_bytes INTEGER,
    real_capacity_bytes INTEGER
) STRICT;
CREATE INDEX source_card ON source(card);

CREATE TABLE setup (
    id INTEGER PRIMARY KEY,
    filesystem TEXT NOT NULL,
    options TEXT NOT NULL,
    scheduler TEXT NOT NULL,
    UNIQUE (filesystem, options, scheduler)
) STRICT;

CREATE TABLE measure (
    id INTEGER PRIMARY KEY,
    metric TEXT NOT NULL,
    unit TEXT NOT NULL,
    workload TEXT NOT NULL,
    point TEXT NOT NULL,
    stage TEXT NOT NULL,
    direction TEXT NOT NULL,
    length TEXT NOT NULL,
    UNIQUE (metric, unit, workload, point, stage, direction, length)
) STRICT;

CREATE TABLE result (
    source INTEGER NOT NULL REFERENCES source(id) ON DELETE CASCADE,
    setup INTEGER NOT NULL REFERENCES setup(id),
    measure INTEGER NOT NULL REFERENCES measure(id),
    value REAL NOT NULL,
    low REAL,
    high REAL,
    count INTEGER NOT NULL,
    confidence REAL,
    PRIMARY KEY (source, setup, measure)
) STRICT, WITHOUT ROWID;

CREATE VIEW results AS
SELECT card.id AS card, card.kind, card.manufacturer, card.oem, card.product, card.revision,
    card.manufactured, card.capacity_bytes, card.name, card.is_individual, source.is_simulated,
    source.kind AS source_kind, source.address, source.created_unix_s, source.kernel,
    source.machine, source.test_bed, source.firmware, source.conditions,
    setup.filesystem, setup.options, setup.scheduler, measure.metric, measure.unit,
    measure.workload, measure.point, measure.stage, measure.direction, measure.length,
    result.value, result.low, result.high, result.count, result.confidence
FROM result
JOIN source ON source.id = result.source
JOIN card ON card.id = source.card
JOIN setup ON setup.id = result.setup
JOIN measure ON measure.id = result.measure;
";

/// Rows from bundles of others.
const VERSION_2: &str = "
ALTER TABLE source ADD COLUMN bundle TEXT NOT NULL DEFAULT '';
DROP VIEW results;
CREATE VIEW results AS
SELECT card.id AS card, card.kind, card.manufacturer, card.oem, card.product, card.revision,
    card.manufactured, card.capacity_bytes, card.name, card.is_individual, source.is_simulated,
    source.bundle <> '' AS is_bundled,
    source.kind AS source_kind, source.address, source.created_unix_s, source.kernel,
    source.machine, source.test_bed, source.firmware, source.conditions,
    setup.filesystem, setup.options, setup.scheduler, measure.metric, measure.unit,
    measure.workload, measure.point, measure.stage, measure.direction, measure.length,
    result.value, result.low, result.high, result.count, result.confidence
FROM result
JOIN source ON source.id = result.source
JOIN card ON card.id = source.card
JOIN setup ON setup.id = result.setup
JOIN measure ON measure.id = result.measure;
";

/// The order of a card's keys. The oldest makes its pseudonym in bundles, which must stay the same
/// when a merge adds keys.
const VERSION_3: &str = "
ALTER TABLE card_key ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0;
";
