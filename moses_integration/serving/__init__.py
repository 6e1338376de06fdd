"""A translation server: systems that stay loaded, behind HTTP, a page and mosesserver's XML-RPC method."""
