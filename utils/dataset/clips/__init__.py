"""Turn recordings into dataset clips, split them into train and eval, and merge them with existing ones."""
