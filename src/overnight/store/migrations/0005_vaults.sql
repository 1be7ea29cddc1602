-- What was masked in a tree of sessions, encrypted with a key outside the workspace; see kernel/masking/vaults.py.
CREATE TABLE vaults (
    root TEXT PRIMARY KEY,           -- the outermost session of the tree; '' for questions asked outside of any
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,             -- the outermost session's; with `root` and `tenant` the owner it is bound to
    sealed BLOB NOT NULL             -- AES-256-GCM: placeholders and what they stand for
);
