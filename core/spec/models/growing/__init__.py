"""The section `grow` of a model: kinds of vertices that come to be while it runs."""
