"""Importing: files and folders → the store, as one act; each kind of what they hold in a file of its own."""

from core.flows.importing.files import import_files
from core.flows.importing.reading import Progress
from core.records.import_answer import BeliefDifference, ImportAnswer, NotOffered, RejectedLine, Unread
