"""What records say, for people: text, HTML pages that work offline, fragments, and figures."""
