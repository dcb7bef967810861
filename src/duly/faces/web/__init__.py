"""The HTTP interface and the page of a host: a face over the same sessions as the command line."""
