"""Everything that chapter 01 brings to the package."""
