"""The optimization switches: resolve, apply, prove and report them."""
