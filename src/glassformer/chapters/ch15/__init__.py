"""Everything that chapter 15 brings to the package."""
