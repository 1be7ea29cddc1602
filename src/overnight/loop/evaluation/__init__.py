"""One evaluation: a fresh checkout, the arena's commands inside the sandbox, the number out."""
