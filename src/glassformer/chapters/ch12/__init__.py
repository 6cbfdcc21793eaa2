"""Everything that chapter 12 brings to the package."""
