-- Time-sharing of a provider among all processes of the workspace; see models/queue/shared.py.
CREATE TABLE model_queues (
    provider TEXT PRIMARY KEY,
    now REAL NOT NULL,               -- virtual time
    last BIGINT NOT NULL,            -- number of the newest turn
    ends TEXT NOT NULL               -- JSON: agent → virtual time at which its last request ends
);
CREATE TABLE model_turns (
    provider TEXT NOT NULL,
    number BIGINT NOT NULL,          -- in the order of arrival
    agent TEXT NOT NULL,
    priority TEXT NOT NULL,          -- interactive | batch
    cost REAL NOT NULL,              -- tokens expected
    start REAL NOT NULL,             -- virtual time
    arrived_s REAL NOT NULL,         -- on the machine's monotonic clock
    holder TEXT NOT NULL,            -- whose it is: a file that this process keeps locked
    limit_s REAL NOT NULL,           -- how long it may have the provider
    since_s REAL,                    -- when it got it; NULL: it waits
    PRIMARY KEY (provider, number)
);
