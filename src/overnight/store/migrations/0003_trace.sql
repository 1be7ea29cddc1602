-- Spans of all work; see trace/. Attributes are named in trace/names.py.
CREATE TABLE spans (
    seq INTEGER PRIMARY KEY,         -- order in which they were written, by which `trace tail` goes on
    trace TEXT NOT NULL,             -- 32 hex digits
    span TEXT NOT NULL,              -- 16 hex digits
    parent TEXT,                     -- span id; NULL at the root
    name TEXT NOT NULL,
    kind TEXT NOT NULL,              -- internal | client | server
    started_us BIGINT NOT NULL,      -- microseconds since the epoch
    ended_us BIGINT NOT NULL,
    status TEXT NOT NULL,            -- ok | error
    attributes TEXT NOT NULL,        -- JSON
    events TEXT NOT NULL             -- JSON: [microseconds since the epoch, name, attributes]
);
CREATE INDEX spans_by_trace ON spans (trace);
-- What was said, masked, by SHA-256; longer texts are blobs.
CREATE TABLE trace_bodies (
    hash TEXT PRIMARY KEY,           -- hex
    content BLOB NOT NULL
);
-- One row for each attempt that was settled, written in the transaction that settles it in the ledger.
CREATE TABLE model_calls (
    seq INTEGER PRIMARY KEY,
    span TEXT NOT NULL,
    trace TEXT NOT NULL,
    at_us BIGINT NOT NULL,
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    run TEXT NOT NULL,
    key TEXT NOT NULL,               -- id of the gateway key
    release TEXT NOT NULL,           -- the name that was asked for
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    outcome TEXT NOT NULL,           -- ok | error | cancelled | cached
    input_tokens BIGINT NOT NULL,    -- with those read from and written to a provider's cache
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,   -- with reasoning
    reasoning_tokens BIGINT NOT NULL,
    cost_nano BIGINT NOT NULL,       -- billionths of a US dollar
    estimated INTEGER NOT NULL       -- 1: the provider did not say; own count
);
CREATE INDEX model_calls_by_time ON model_calls (at_us);
-- Who may use the gateway. The key itself is kept nowhere but with its owner.
CREATE TABLE gateway_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    sha256 TEXT NOT NULL,            -- of the whole key, hex
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    run TEXT NOT NULL,
    limits TEXT NOT NULL,            -- JSON: the key's own limits
    created_at REAL NOT NULL,
    expires_at REAL,
    revoked_at REAL
);
