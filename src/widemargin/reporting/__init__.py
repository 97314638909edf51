"""Write HTML reports: study the data, collect the numbers, render the page."""
