-- A small shop: tables, indexes, views with window functions, full-text search. Deterministic; about two seconds of work.
CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE sale(id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, cents INTEGER, day INTEGER);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO customer SELECT i, printf('customer %06d', i * 7919 % 100003), printf('city %02d', i * 31 % 97) FROM n;
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
INSERT INTO sale SELECT i, i * 7919 % 5000 + 1, printf('item %04d', i * 104729 % 997), i * 31337 % 10000, i * 613 % 365 FROM n;
CREATE INDEX sale_customer ON sale(customer, day);
CREATE INDEX sale_item ON sale(item);
SELECT city, count(*), sum(cents) FROM customer JOIN sale ON customer = customer.id GROUP BY city ORDER BY 3 DESC LIMIT 5;
SELECT item, sum(cents) AS total, rank() OVER (ORDER BY sum(cents) DESC) FROM sale GROUP BY item LIMIT 5;
SELECT day, total, avg(total) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW)
FROM (SELECT day, sum(cents) AS total FROM sale GROUP BY day) LIMIT 5;
SELECT group_concat(name, ', ') FROM (SELECT DISTINCT name FROM customer WHERE city = 'city 42' ORDER BY name LIMIT 5);
UPDATE sale SET cents = cents + 1 WHERE item GLOB 'item 00*';
DELETE FROM sale WHERE day % 2;
SELECT count(*), sum(cents) FROM sale;
