"""From noisy values to what is published: columns, files, checks of files. Post-processing: no true value gets here."""
