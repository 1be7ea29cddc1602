CREATE TABLE runs (
    run TEXT PRIMARY KEY,
    arena TEXT NOT NULL,             -- folder, relative to the workspace where it lies inside
    state TEXT NOT NULL,             -- running | interrupted | finished | failed | imported
    started_at REAL NOT NULL,        -- seconds since the epoch
    ended_at REAL,
    settings TEXT NOT NULL,          -- JSON: what the run was started with
    secret TEXT NOT NULL,            -- hex: seeds of evaluations are derived from it
    mode TEXT NOT NULL,              -- deterministic | noise
    spent_s REAL NOT NULL DEFAULT 0, -- wall clock used by earlier stretches
    pid INTEGER,
    heartbeat_at REAL,
    summary TEXT                     -- JSON: the final report object
);
CREATE TABLE experiments (
    run TEXT NOT NULL REFERENCES runs(run),
    n INTEGER NOT NULL,              -- 0 is the baseline
    commit_id TEXT NOT NULL,
    parent_id TEXT,
    tree TEXT NOT NULL,              -- tree of the arena folder, by which repeats are known
    status TEXT NOT NULL,            -- baseline | keep | discard | crash | timeout | rejected
    author TEXT NOT NULL,
    hypothesis TEXT NOT NULL,
    metric REAL,
    delta REAL,                      -- improvement over the champion it was judged against, positive is better
    reason TEXT NOT NULL,            -- one sentence: why this verdict
    seconds REAL NOT NULL,
    detail TEXT NOT NULL,            -- JSON: evidence, knobs, notes
    files TEXT NOT NULL,             -- JSON: path -> mode and blob of what differs from the baseline, or null
    opened INTEGER NOT NULL,         -- place in the run's order of events, which `seq` of measurements shares
    closed INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (run, n)
);
CREATE TABLE measurements (
    run TEXT NOT NULL REFERENCES runs(run),
    seq INTEGER NOT NULL,            -- order of completion within the run
    n INTEGER NOT NULL,              -- the experiment it was made for
    role TEXT NOT NULL,              -- baseline | challenger | champion | drift | final | holdout
    tree TEXT NOT NULL,
    seed INTEGER,
    slot INTEGER NOT NULL,
    outcome TEXT NOT NULL,           -- ok | crash | timeout | rejected
    value REAL,
    secondary TEXT NOT NULL,         -- JSON: the other named numbers
    ask TEXT NOT NULL,               -- JSON: what the judge asked for, so that its state can be replayed
    error TEXT NOT NULL,             -- tail of what the artifact said; never the scorer's
    scorer_error TEXT NOT NULL,      -- what the scorer said; never reaches an author
    seconds REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (run, seq)
);
CREATE INDEX measurements_by_experiment ON measurements (run, n);
CREATE INDEX experiments_by_tree ON experiments (run, tree);
CREATE TABLE inflight (
    run TEXT NOT NULL REFERENCES runs(run),
    n INTEGER NOT NULL,
    tree TEXT NOT NULL,
    opened INTEGER NOT NULL,
    at REAL NOT NULL,
    proposal TEXT NOT NULL,          -- JSON: author, hypothesis, knobs, notes, files
    PRIMARY KEY (run, n)
);
CREATE TABLE findings (
    run TEXT NOT NULL REFERENCES runs(run),
    n INTEGER NOT NULL,              -- the experiment after which it was learnt
    kind TEXT NOT NULL,              -- keep | cycle
    text TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (run, n, kind)
);
