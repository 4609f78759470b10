"""The pages of the console and the actions of their forms."""
