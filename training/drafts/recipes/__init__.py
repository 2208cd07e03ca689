"""One file per kind of draft. Each offers `build(target, **options) -> Recipe`; see `training.drafts.recipe`."""
