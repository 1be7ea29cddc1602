"""The one place where money, tokens, calls and bytes are counted, before they are spent."""
