"""Everything that chapter 13 brings to the package."""
