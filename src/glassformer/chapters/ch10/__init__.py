"""Everything that chapter 10 brings to the package."""
