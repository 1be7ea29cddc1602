-- The journal. An entry's hash covers every column and the hash before it; see kernel/journal/journal.py.
CREATE TABLE journal_entries (
    seq INTEGER PRIMARY KEY,         -- from 1, without gaps
    at_us BIGINT NOT NULL,           -- microseconds since the epoch
    kind TEXT NOT NULL,              -- opened | proposed | decided | executed | result | approval | rollback | …
    action TEXT NOT NULL,            -- the id shared by all entries about one action; '' where there is none
    session TEXT NOT NULL,
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    objects INTEGER NOT NULL,        -- how many changes of objects the body carries
    body TEXT NOT NULL,              -- canonical JSON
    hash TEXT NOT NULL               -- hex
);
CREATE INDEX journal_by_action ON journal_entries (action);
CREATE INDEX journal_by_session ON journal_entries (session);
CREATE INDEX journal_by_objects ON journal_entries (seq) WHERE objects > 0;
CREATE TABLE journal_heads (
    size INTEGER PRIMARY KEY,        -- entries covered
    journal TEXT NOT NULL,           -- id of the journal
    root TEXT NOT NULL,              -- Merkle tree hash of the first `size` entries, hex
    at_us BIGINT NOT NULL,
    signer TEXT NOT NULL,            -- id of the key
    signature TEXT NOT NULL,         -- Ed25519, hex
    peaks TEXT NOT NULL,             -- JSON: roots of the perfect subtrees, left to right
    tail TEXT NOT NULL,              -- hash of entry `size`
    retired INTEGER NOT NULL         -- 1: the entries up to here were exported and removed
);
-- What waits for a person, and what persons said; see kernel/approval/inbox.py.
CREATE TABLE inbox_items (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,              -- approval | trust | result | wiki | skill | stopped
    binding TEXT NOT NULL,           -- SHA-256 of what is asked for, hex
    title TEXT NOT NULL,             -- one line, already escaped
    request TEXT NOT NULL,           -- JSON: what a person is shown; untrusted text as it came
    session TEXT NOT NULL,
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    needed INTEGER NOT NULL,         -- how many different approvers must say yes
    created_at REAL NOT NULL,
    expires_at REAL,                 -- seconds since the epoch; NULL waits for ever
    used_at REAL                     -- a yes is good for one use
);
CREATE INDEX inbox_by_binding ON inbox_items (binding);
CREATE TABLE inbox_votes (
    item TEXT NOT NULL REFERENCES inbox_items(id),
    approver TEXT NOT NULL,          -- id of the approver's key
    verdict TEXT NOT NULL,           -- approve | deny
    why TEXT NOT NULL,
    at REAL NOT NULL,
    signature TEXT NOT NULL,         -- Ed25519 over item, binding, verdict and time, hex
    PRIMARY KEY (item, approver)
);
CREATE TABLE revoked_grants (
    revocation TEXT PRIMARY KEY,     -- biscuit revocation id of any of the grant's blocks, hex
    why TEXT NOT NULL,
    at REAL NOT NULL
);
-- The ledger. Amounts are whole numbers: calls, tokens, bytes, and billionths of a US dollar; see kernel/ledger/ledger.py.
CREATE TABLE ledger_used (
    account TEXT NOT NULL,           -- a limit and whom it is counted for
    slot_ms BIGINT NOT NULL,         -- start of the slice of the window, in the ledger's own time; 0 for totals
    amount BIGINT NOT NULL,
    PRIMARY KEY (account, slot_ms)
);
CREATE TABLE ledger_holds (
    id TEXT NOT NULL,
    account TEXT NOT NULL,
    owner TEXT NOT NULL,             -- the process that runs the call: boot, pid, start time
    PRIMARY KEY (account, id)
);
CREATE TABLE ledger_boots (
    boot TEXT PRIMARY KEY,
    offset_ms BIGINT NOT NULL        -- the ledger's time minus the boot's monotonic clock
);
-- Sessions that were stopped because what they did, taken together, was not what one call says; see kernel/ledger/breaker.py.
CREATE TABLE breaker_trips (
    item TEXT PRIMARY KEY,           -- the inbox item that asks whether it may go on
    root TEXT NOT NULL,              -- the outermost session of the tree that was stopped
    reason TEXT NOT NULL,            -- burst | fragments
    subject TEXT NOT NULL,           -- the tool family, or the question that met a combination in fragments
    sentence TEXT NOT NULL,
    at REAL NOT NULL,
    cleared_at REAL
);
CREATE INDEX breaker_by_root ON breaker_trips (root);
-- Sessions form trees; what one has been told is rebuilt from `request` and the journal; see kernel/sessions.py.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    parent TEXT,
    root TEXT NOT NULL,              -- the outermost session of the tree; its own id there
    agent TEXT NOT NULL,
    tenant TEXT NOT NULL,
    request TEXT NOT NULL,           -- what the person typed; '' in sub-agents' sessions, which share the root's
    plan TEXT,                       -- JSON: planned tools; NULL is no plan
    peak TEXT NOT NULL,              -- the most confidential thing its tree has read; kept at the root
    attended INTEGER NOT NULL,
    on_denied TEXT NOT NULL,         -- stop | continue
    stopped TEXT,                    -- why no further call is decided; NULL while it may go on
    opened_at REAL NOT NULL
);
CREATE INDEX sessions_by_root ON sessions (root);
CREATE TABLE combination_states (
    rule_key TEXT PRIMARY KEY,       -- the rule and whose history it counts
    step INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    servers TEXT NOT NULL,           -- JSON
    at_s REAL NOT NULL
);
-- The last trusted copy of what executes or decides; see kernel/approval/trust.py.
CREATE TABLE trusted_files (
    path TEXT PRIMARY KEY,           -- relative to the workspace
    sha256 TEXT NOT NULL,
    content BLOB NOT NULL,
    trusted_at REAL NOT NULL,
    trusted_by TEXT NOT NULL,        -- name of the approver, or 'first run at a terminal'
    signature TEXT NOT NULL          -- Ed25519 by a key outside the workspace, hex; without it the row counts nothing
);
