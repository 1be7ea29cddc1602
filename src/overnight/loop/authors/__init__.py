"""Authors: whoever makes a change. `search` needs no model; `command` is any program; more come by the same seam."""
