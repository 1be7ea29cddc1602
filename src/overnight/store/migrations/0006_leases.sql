-- What processes have taken out of the ledger to spend without asking again; counted in ledger_used. See kernel/ledger/lease.py.
CREATE TABLE ledger_leases (
    book TEXT NOT NULL,              -- the file beside the database that says how much of it is in use
    place INTEGER NOT NULL,          -- where in that file
    owner TEXT NOT NULL,             -- the process: boot, pid, start time
    account TEXT NOT NULL,
    slot_ms BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (book, place)
);
CREATE INDEX ledger_leases_by_account ON ledger_leases (account);
