"""One file per kind of draft. Each offers `build(target, **options) -> Recipe`; see `training.draft_models.recipe`."""
