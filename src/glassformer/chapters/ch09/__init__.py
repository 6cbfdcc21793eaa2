"""Everything that chapter 09 brings to the package."""
