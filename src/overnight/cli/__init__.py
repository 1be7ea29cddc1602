"""Floor 9: the command line. Commands parse, call one function, render; no logic lives here."""
