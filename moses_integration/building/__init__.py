"""From a parallel corpus to a system folder: alignment, tables, language model, moses.ini."""
