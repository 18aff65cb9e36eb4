-- A library of eight tables and a million rows, drawn from a seed: some books, authors and readers are far more
-- frequent than others, and columns depend on each other, which an optimizer does not know.
SELECT setseed(0.5);
CREATE TABLE branch (id int PRIMARY KEY, city int, size int);
INSERT INTO branch SELECT i, i % 12, (100 * random())::int FROM generate_series(1, 40) i;
CREATE TABLE author (id int PRIMARY KEY, country int, born int);
INSERT INTO author SELECT i, (30 * power(random(), 3))::int, 1990 - (i / 90) FROM generate_series(1, 9000) i;
CREATE TABLE publisher (id int PRIMARY KEY, country int, founded int);
INSERT INTO publisher SELECT i, i % 30, 1850 + i % 170 FROM generate_series(1, 700) i;
CREATE TABLE book (id int PRIMARY KEY, author int, publisher int, genre int, year int, pages int);
INSERT INTO book SELECT i, a, 1 + (a * 7 + (random() * 3)::int) % 700, a % 15, 2015 - a / 120, 80 + a % 15 * 40
  FROM (SELECT i, 1 + (8999 * power(random(), 3))::int a FROM generate_series(1, 60000) i) x;
CREATE TABLE copy (id int PRIMARY KEY, book int, branch int, state int);
INSERT INTO copy SELECT row_number() OVER (), book.id, 1 + (39 * power(random(), 2))::int, genre % 8
  FROM (SELECT 1 + (59999 * power(random(), 2))::int b FROM generate_series(1, 150000)) x JOIN book ON book.id = b;
CREATE TABLE reader (id int PRIMARY KEY, branch int, city int, born int, kind int);
INSERT INTO reader SELECT i, b, b % 12, 1930 + i % 80, CASE WHEN i % 50 = 0 THEN 5 ELSE i % 5 END
  FROM (SELECT i, 1 + (39 * power(random(), 2))::int b FROM generate_series(1, 20000) i) x;
CREATE TABLE loan (id int PRIMARY KEY, copy int, reader int, day int, late int);
INSERT INTO loan SELECT i, 1 + (149999 * power(random(), 2))::int, r, r % 80 * 25 + (25 * random())::int,
  CASE WHEN r % 50 = 0 THEN 1 ELSE 0 END
  FROM (SELECT i, 1 + (19999 * power(random(), 3))::int r FROM generate_series(1, 700000) i) x;
CREATE TABLE review (id int PRIMARY KEY, book int, reader int, stars int, day int);
INSERT INTO review SELECT row_number() OVER (), book.id, r, 1 + genre % 5, r % 80 * 25 + (25 * random())::int
  FROM (SELECT 1 + (59999 * power(random(), 4))::int b, 1 + (19999 * power(random(), 3))::int r
        FROM generate_series(1, 80000)) x JOIN book ON book.id = b;
CREATE INDEX ON book (author); CREATE INDEX ON book (publisher); CREATE INDEX ON book (genre);
CREATE INDEX ON copy (book); CREATE INDEX ON copy (branch);
CREATE INDEX ON reader (branch); CREATE INDEX ON reader (city);
CREATE INDEX ON loan (copy); CREATE INDEX ON loan (reader); CREATE INDEX ON loan (day);
CREATE INDEX ON review (book); CREATE INDEX ON review (reader);
ANALYZE;
