"""Checks this project's dependencies for `make audit` and `make lint`: all are pinned exactly, their licences are
known, and no advisory is known for them where an index can be asked."""
